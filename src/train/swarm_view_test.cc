#include "train/swarm_view.h"

#include <future>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace rookery::train {
namespace {

using dashboard::Json;

// Two copies, on attic and barn; nobody has measured the links between them.
class SwarmViewTest : public testing::Test {
 protected:
  SwarmViewTest() {
    wire::Plan plan{.generation = 1};
    for (const char* name : {"attic", "barn"}) {
      const auto rank = static_cast<std::uint32_t>(plan.peers.size());
      view_.joined({.contact = {.name = name}});
      view_.ready(name, {.resident = 100, .available = 900});
      plan.peers.push_back({.contact = {.name = name}, .cluster = rank, .end = 4});
    }
    view_.planned(plan);
    view_.began();
  }

  Json state() {
    std::promise<Json> state;
    dashboard_.show([&](dashboard::View& view, double seconds) { state.set_value(state_of(view, seconds)); });
    return state.get_future().get();
  }

  dashboard::Dashboard dashboard_{{}, [](auto, auto&) { return std::nullopt; }};
  plan::Swarm measured_;
  SwarmView view_{dashboard_, 4, [this]() -> const plan::Swarm& { return measured_; }};
};

TEST_F(SwarmViewTest, LinksThatNobodyMeasuredAreAsTheirEndsSeeThem) {
  EXPECT_EQ(state()["links"][1]["bandwidth"], nullptr);
  view_.active("attic", {.traffic = {{.peer = 1, .sent = 10, .bandwidth = 1e6, .latency = 0.01}, {.peer = 9}}});
  const Json links = state()["links"];
  ASSERT_EQ(links.size(), 2);
  EXPECT_EQ(links[1]["from"], "barn");
  EXPECT_EQ(links[1]["to"], "attic");
  EXPECT_EQ(links[1]["bandwidth"], 1e6);
  EXPECT_EQ(links[1]["latency"], 0.01);
  EXPECT_EQ(links[0]["bandwidth"], nullptr);
}

TEST_F(SwarmViewTest, WhoHasNoLimitMayTakeWhatIsFree) {
  const Json memory = state()["peers"][0]["memory"];
  EXPECT_EQ(memory["limit"], nullptr);
  EXPECT_EQ(memory["available"], 1000);
}

TEST_F(SwarmViewTest, NobodyTellsOfTheFuture) {
  view_.active("attic", {.spans = {{.kind = 4, .begin = 1, .seconds = 1e300}, {.kind = 99, .begin = 1, .seconds = 1}}});
  const Json shown = state();
  ASSERT_EQ(shown["spans"]["attic"].size(), 1);
  EXPECT_EQ(shown["spans"]["attic"][0][0], "wait");
  EXPECT_LE(shown["spans"]["attic"][0][2].get<double>(), shown["seconds"].get<double>() + 0.001) << "milliseconds";
}

}  // namespace
}  // namespace rookery::train
