#include "observe/trace.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/file.h"

namespace rookery::observe {
namespace {

namespace fs = std::filesystem;

TEST(TraceTest, TracesOfSeveralPeersBecomeOne) {
  const fs::path folder = fs::path(testing::TempDir()) / "traces";
  fs::create_directories(folder);
  const std::vector<fs::path> files = {folder / "a", folder / "b", folder / "missing"};
  for (std::size_t i = 0; i < 2; ++i) {
    Trace trace(files[i], i, i == 0 ? "anna" : "ben \"the slow\"");
    const BeginSpan compute = trace.row("compute"), send = trace.rows("send");
    const auto sent = send("send forward", 7);
    { const Span forward(compute, "forward", 7); }
    { const Span backward(compute, "backward", 6); }
    sent();
    { const Span unwatched({}, "nothing", 1); }
  }
  join_traces(files, folder / "trace.json");
  const auto trace = nlohmann::json::parse(read_file(folder / "trace.json"));
  std::map<std::string, int> seen;
  double forward = 0, backward = 0;
  for (const auto& event : trace.at("traceEvents")) {
    ++seen[event.at("name")];
    if (event.at("pid") != 0) continue;
    if (event.at("name") == "forward") forward = event.at("ts").get<double>() + event.at("dur").get<double>();
    if (event.at("name") == "backward") backward = event.at("ts");
  }
  EXPECT_EQ(seen["process_name"], 2);
  EXPECT_EQ(seen["forward"], 2);
  EXPECT_EQ(seen["send forward"], 4);  // where each begins and ends
  EXPECT_EQ(seen["nothing"], 0);
  EXPECT_LE(forward, backward);
  fs::remove_all(folder);
}

}  // namespace
}  // namespace rookery::observe
