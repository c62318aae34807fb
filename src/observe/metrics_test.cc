#include "observe/metrics.h"

#include <limits>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "observe/memory.h"

namespace rookery::observe {
namespace {

TEST(StepMetrics, IsWrittenUnderItsFieldNames) {
  StepMetrics metrics{.step = 3, .loss = 0.1, .seconds = 1.5, .step_seconds = 0.25, .samples = 48, .tokens = 6144};
  metrics.lr = 1e-3;
  metrics.grad_norm = 0.5;
  EXPECT_EQ(to_json(metrics).dump(),
            R"({"step":3,"loss":0.1,"seconds":1.5,"step_seconds":0.25,"samples":48,"tokens":6144,"lr":0.001,)"
            R"("grad_norm":0.5})");
}

TEST(StepMetrics, HasEvaluationsOnlyWhereTheyTookPlace) {
  StepMetrics metrics;
  EXPECT_FALSE(to_json(metrics).contains("eval_loss"));
  metrics.eval_loss = 2.5;
  metrics.eval_accuracy = 0.5;
  EXPECT_EQ(to_json(metrics)["eval_loss"], 2.5);
  EXPECT_EQ(to_json(metrics)["eval_accuracy"], 0.5);
}

TEST(StepMetrics, SaysInASwarmWhatItCostToBeTogether) {
  StepMetrics metrics;
  EXPECT_FALSE(to_json(metrics).contains("bytes_sent"));
  metrics.together = {.compute_seconds = 0.5, .wait_seconds = 0.25, .bytes_sent = 100, .bytes_received = 99};
  metrics.consensus_distance = 0.125;
  const auto object = to_json(metrics);
  EXPECT_EQ(object["compute_seconds"], 0.5);
  EXPECT_EQ(object["wait_seconds"], 0.25);
  EXPECT_EQ(object["bytes_sent"], 100);
  EXPECT_EQ(object["bytes_received"], 99);
  EXPECT_EQ(object["consensus_distance"], 0.125);
}

TEST(StepMetrics, NumbersSurviveTheFile) {
  StepMetrics metrics;
  for (const double number : {0.1 + 0.2, 1.0 / 3, 5e-324, 1.7976931348623157e308}) {
    metrics.loss = number;
    EXPECT_EQ(nlohmann::json::parse(to_json(metrics).dump())["loss"].get<double>(), number);
  }
}

TEST(StepMetrics, NumbersThatAreNotFiniteBecomeNull) {
  StepMetrics metrics;
  metrics.loss = std::numeric_limits<double>::quiet_NaN();
  metrics.grad_norm = std::numeric_limits<double>::infinity();
  metrics.eval_loss = -std::numeric_limits<double>::infinity();
  const auto object = to_json(metrics);
  EXPECT_TRUE(object["loss"].is_null());
  EXPECT_TRUE(object["grad_norm"].is_null());
  EXPECT_TRUE(object["eval_loss"].is_null());
}

TEST(Summary, IsWrittenUnderItsFieldNames) {
  Summary summary;
  summary.final_loss = 1.25;
  summary.eval_loss = 1.5;
  summary.steps = 300;
  summary.parameters = 7;
  summary.peers = {{"a", 1024, 512, 0.75}};
  EXPECT_EQ(to_json(summary).dump(),
            R"({"final_loss":1.25,"eval_loss":1.5,"steps":300,"samples":0,"tokens":0,"tokens_per_second":0.0,)"
            R"("samples_per_second":0.0,"wall_seconds":0.0,"peak_memory_bytes":0,"parameters":7,)"
            R"("peers":[{"name":"a","peak_memory_bytes":1024,"own_memory_bytes":512,"busy_share":0.75}]})");
}

TEST(Summary, OfASwarmSaysWhatItCostToBeTogether) {
  Summary summary;
  summary.peers = {{.name = "a", .eval_loss = 2.5, .bytes_sent = 70, .wait_seconds = 0.5}};
  summary.peers[0].stage = {.cluster = 1, .stage = 2, .begin = 3, .end = 5, .staleness = {4, 9}, .versions = 2};
  summary.bytes_sent = 70;
  summary.exposed_communication_share = 0.25;
  summary.rounds = 3;
  summary.measured_step_seconds = 0.125;
  summary.samples_left_out = 24;
  summary.left_out = {{.cluster = 1, .first_step = 4, .last_step = 6}};
  summary.forgotten = {{.cluster = 1, .first_step = 3, .last_step = 3}};
  const auto object = to_json(summary);
  EXPECT_EQ(object["peers"][0]["eval_loss"], 2.5);
  EXPECT_EQ(object["peers"][0]["bytes_sent"], 70);
  EXPECT_EQ(object["peers"][0]["layers"].dump(), "[3,5]");
  EXPECT_EQ(object["peers"][0]["staleness"].dump(), "[4,9]");
  EXPECT_EQ(object["bytes_sent"], 70);
  EXPECT_EQ(object["exposed_communication_share"], 0.25);
  EXPECT_EQ(object["rounds"], 3);
  EXPECT_EQ(object["measured_step_seconds"], 0.125);
  EXPECT_EQ(object["samples_left_out"], 24);
  EXPECT_EQ(object["left_out"].dump(), R"([{"cluster":1,"first_step":4,"last_step":6}])");
  EXPECT_EQ(object["forgotten"].dump(), R"([{"cluster":1,"first_step":3,"last_step":3}])");
}

TEST(Sinks, PassEverythingOnInOrder) {
  struct Recorder : Sink {
    Recorder(std::string& log, char name) : log_(log), name_(name) {}
    void step(const StepMetrics& metrics) override { log_ += name_ + std::to_string(metrics.step) + ' '; }
    void finish(const Summary& summary) override { log_ += name_ + std::to_string(-summary.steps) + ' '; }
    std::string& log_;
    char name_;
  };
  std::string log;
  Sinks sinks;
  sinks.add(std::make_unique<Recorder>(log, 'a'));
  sinks.add(std::make_unique<Recorder>(log, 'b'));
  sinks.step({.step = 1});
  sinks.finish({.steps = 1});
  EXPECT_EQ(log, "a1 b1 a-1 b-1 ");
}

TEST(PeakMemory, GrowsWithWhatIsTouchedAndNeverShrinks) {
  const Bytes before = peak_memory();
  EXPECT_GT(before, Bytes{1} << 20);
  // Beyond any earlier peak, whatever was freed before.
  { const std::vector<char> touched(static_cast<std::size_t>(before) + (64u << 20), 1); }
  EXPECT_GE(peak_memory(), before + (Bytes{32} << 20));
}

}  // namespace
}  // namespace rookery::observe
