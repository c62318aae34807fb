#include "observe/run_files.h"

#include <cmath>

#include <gmock/gmock.h>

#include "base/error.h"
#include "observe/testing/made_up_run.h"

namespace rookery::observe {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

class RunFilesTest : public MadeUpRuns {
 protected:
  RunFiles read() const { return read_run(folder_ / "a"); }
  std::string path_of(const std::string& file) const { return (folder_ / "a" / file).string(); }

  std::string refusal() const {
    try {
      read();
      return "accepted";
    } catch (const InputError& error) {
      return error.what();
    }
  }
};

TEST_F(RunFilesTest, StepsBecomeCurves) {
  write("a", "metrics.jsonl", steps(1, 3));
  const RunFiles run = read();
  EXPECT_EQ(run.last_step, 3);
  EXPECT_THAT(run.loss.points(), ElementsAre(Point{1, 0.5, 16, 1.0}, Point{2, 1, 32, 0.5}, Point{3, 1.5, 48, 1.0 / 3}));
  EXPECT_THAT(run.tokens.points().back(), (Point{3, 1.5, 48, 3000}));
  EXPECT_TRUE(run.eval_loss.is_empty());
  EXPECT_TRUE(run.drift.is_empty());
  EXPECT_TRUE(run.metrics.contains("wait_seconds"));
  EXPECT_FALSE(run.metrics.contains("eval_loss"));
}

TEST_F(RunFilesTest, StepsAreReadAsTheyWereWritten) {
  const std::vector<StepMetrics> written = {
      {.step = 1,
       .loss = 2.5,
       .seconds = 1,
       .step_seconds = 0.5,
       .samples = 16,
       .tokens = 160,
       .lr = 0.1,
       .grad_norm = 3},
      {.step = 2,
       .loss = 2.25,
       .seconds = 2,
       .step_seconds = 0.75,
       .samples = 32,
       .tokens = 320,
       .lr = 0.2,
       .grad_norm = 4,
       .eval_loss = 2.5,
       .eval_accuracy = 0.25,
       .together = StepMetrics::Together{.compute_seconds = 1, .wait_seconds = 2, .bytes_sent = 3, .bytes_received = 4},
       .consensus_distance = 0.5,
       .drift = 1.5,
       .staleness_max = 2}};
  std::string lines;
  for (const StepMetrics& step : written) lines += to_json(step).dump() + "\n";
  write("a", "metrics.jsonl", lines + "{\"step\": 3, \"lo");  // the last one is torn
  std::vector<std::string> read;
  read_metrics(path_of("metrics.jsonl"), [&](const StepMetrics& step) { read.push_back(to_json(step).dump()); });
  EXPECT_THAT(read, ElementsAre(to_json(written[0]).dump(), to_json(written[1]).dump()));
}

TEST_F(RunFilesTest, TimeIsSplit) {
  write("a", "metrics.jsonl", steps(1, 4));
  write("a", "peers/late.jsonl", steps(3, 4));
  const RunFiles run = read();
  EXPECT_DOUBLE_EQ(run.time.compute, 1);
  EXPECT_DOUBLE_EQ(run.time.waiting, 0.5);
  EXPECT_DOUBLE_EQ(run.time.whole, 2);
  EXPECT_DOUBLE_EQ(run.time.other(), 0.5);
  ASSERT_EQ(run.peers.size(), 1u);
  EXPECT_EQ(run.peers[0].name, "late");
  EXPECT_EQ(run.peers[0].steps, 2);
  EXPECT_DOUBLE_EQ(run.peers[0].time.compute, 0.5);
  EXPECT_DOUBLE_EQ(run.peers[0].time.whole, 0.9);  // since its own first step began
}

TEST_F(RunFilesTest, APeerAloneComputesInItsSteps) {
  write("a", "metrics.jsonl", "{\"step\":1,\"loss\":2,\"seconds\":3,\"step_seconds\":2}\n");
  const RunFiles run = read();
  EXPECT_EQ(run.time.compute, 2);
  EXPECT_EQ(run.time.waiting, 0);
  EXPECT_EQ(run.time.other(), 1);
}

TEST_F(RunFilesTest, ARunThatGoesOnHasNoSummaryButItsLastLines) {
  write("a", "metrics.jsonl",
        "{\"step\":1,\"loss\":2.5,\"eval_loss\":2.25,\"seconds\":1,\"samples\":16,\"tokens\":8}\n"
        "{\"step\":2,\"loss\":2.125,\"seconds\":2,\"samples\":32,\"tokens\":16}\n{\"step\":3,\"lo");
  const RunFiles run = read();
  EXPECT_FALSE(run.has_summary);
  EXPECT_EQ(run.last_step, 2);  // the last line is torn
  EXPECT_EQ(run.outcome, nlohmann::json::parse(R"({"final_loss":2.125,"eval_loss":2.25,"steps":2,"samples":32,
                                                           "tokens":16,"wall_seconds":2})"));
}

TEST_F(RunFilesTest, TheSummaryIsTakenAsItIs) {
  write("a", "metrics.jsonl", steps(1, 2));
  write("a", "summary.json", "{\"final_loss\": 0.1, \"new\": [1]}");
  const RunFiles run = read();
  EXPECT_TRUE(run.has_summary);
  EXPECT_EQ(run.outcome.dump(), "{\"final_loss\":0.1,\"new\":[1]}");
}

TEST_F(RunFilesTest, ARunWithoutAStepIsEmpty) {
  write("a", "metrics.jsonl", "");
  const RunFiles run = read();
  EXPECT_EQ(run.last_step, 0);
  EXPECT_TRUE(run.loss.is_empty());
  EXPECT_TRUE(run.outcome.empty());
  EXPECT_THAT(run.peers, IsEmpty());
}

TEST_F(RunFilesTest, LossesThatAreNoNumbersAreCounted) {
  write("a", "metrics.jsonl", "{\"step\":1,\"loss\":2}\n{\"step\":2,\"loss\":null}\n{\"step\":3}\n");
  const RunFiles run = read();
  EXPECT_EQ(run.steps_without_loss, 2);
  ASSERT_EQ(run.loss.points().size(), 2u);
  EXPECT_TRUE(std::isnan(run.loss.points()[1].value));
}

TEST_F(RunFilesTest, AResumedRunGoesOnWhereItWas) {
  write("a", "metrics.jsonl", steps(1, 5) + steps(4, 8));
  const RunFiles run = read();
  EXPECT_EQ(run.last_step, 8);
  EXPECT_EQ(run.loss.points().size(), 8u);
}

TEST_F(RunFilesTest, IncidentsAreWhatDoesNotHappenInEveryRun) {
  write("a", "metrics.jsonl", "");
  write("a", "events.jsonl",
        "{\"seconds\":0,\"step\":0,\"event\":\"joined\",\"peer\":\"b\"}\n"
        "{\"seconds\":1.5,\"step\":3,\"event\":\"lost\",\"peer\":\"b\",\"text\":\"is silent\"}\n"
        "{\"seconds\":2,\"step\":4,\"event\":\"stuck\"}\n"
        "{\"seconds\":2,\"step\":4,\"event\":\"returned\"}\n"
        "{\"seconds\":3,\"step\":9,\"event\":\"lost\",\"peer\":\"c\"}\n{\"seconds\":4,");
  const RunFiles run = read();
  ASSERT_EQ(run.incidents.size(), 4u);
  EXPECT_EQ(run.incidents[0].seconds, 1.5);
  EXPECT_EQ(run.incidents[0].step, 3);
  EXPECT_EQ(run.incidents[0].event, "lost");
  EXPECT_EQ(run.incidents[0].peer, "b");
  EXPECT_EQ(run.incidents[0].text, "is silent");
  EXPECT_EQ(run.incidents[1].peer, "");
  EXPECT_THAT(run.incidents_by_event, ElementsAre(Pair("lost", 2), Pair("returned", 1), Pair("stuck", 1)));
  EXPECT_EQ(run.incident_count(), 4);
  EXPECT_EQ(run.failure_count(), 3);
}

TEST_F(RunFilesTest, FailuresAreWhatHasFailed) {
  std::string events;
  for (const char* failure : {"lost", "round failed", "stuck", "expelled", "failed"}) {
    events += fmt::format("{{\"event\":\"{}\"}}\n", failure);
  }
  for (const char* other : {"moves", "taken up", "returned", "restores", "restored", "chaos", "left", "refused",
                            "missed", "suspected", "stands in", "rewound", "planned", "checkpoint"}) {
    events += fmt::format("{{\"event\":\"{}\"}}\n", other);
  }
  write("a", "metrics.jsonl", "");
  write("a", "events.jsonl", events);
  EXPECT_EQ(read().failure_count(), 5);
}

TEST_F(RunFilesTest, ManyIncidentsAreCountedAndTheFirstKept) {
  std::string events;
  for (int i = 0; i < 700; ++i) events += fmt::format("{{\"event\":\"e{}\",\"step\":{}}}\n", i % 70, i);
  write("a", "metrics.jsonl", "");
  write("a", "events.jsonl", events);
  const RunFiles run = read();
  EXPECT_EQ(run.incidents.size(), RunFiles::kMostIncidents);
  EXPECT_EQ(run.incidents.back().step, 499);
  EXPECT_EQ(run.incident_count(), 700);
  EXPECT_EQ(run.incidents_by_event.size(), 51u);
  EXPECT_EQ(run.incidents_by_event.at("other"), 200);
  write("a", "events.jsonl", events + "{\"event\":\"lost\"}\n");
  EXPECT_EQ(read().failure_count(), 1);  // whatever else there was
}

TEST_F(RunFilesTest, LongTextsAreCutBetweenCharacters) {
  std::string text = "x";
  for (int i = 0; i < 1500; ++i) text += "ö";
  write("a", "metrics.jsonl", "");
  write("a", "events.jsonl", "{\"event\":\"lost\",\"text\":\"" + text + "\"}\n");
  EXPECT_EQ(read().incidents.at(0).text, text.substr(0, 1999) + "…");
}

TEST_F(RunFilesTest, WhatCannotBeReadIsNamed) {
  EXPECT_EQ(refusal(), path_of("metrics.jsonl") + ": there is no such file");
  const std::string no_line = ": is not a line of metrics (a JSON object with a whole number as \"step\")";
  for (const char* line : {"garbage\n", "\n", "[]\n", "{}\n", "{\"step\":1.5}\n"}) {
    write("a", "metrics.jsonl", steps(1, 2) + line + steps(4, 4));
    EXPECT_EQ(refusal(), path_of("metrics.jsonl") + ":3" + no_line) << line;
  }
  write("a", "metrics.jsonl", "{\"step\":1,\"loss\":\"low\"}\n");
  EXPECT_EQ(refusal(), path_of("metrics.jsonl") + ":1: \"loss\" is not a number");
  write("a", "metrics.jsonl", "");
  write("a", "events.jsonl", "{\"event\":\"lost\"}\n{\"text\":\"\"}\n");
  EXPECT_EQ(refusal(), path_of("events.jsonl") + ":2: is not an event (a JSON object with a text as \"event\")");
  write("a", "events.jsonl", "");
  write("a", "peers/b.jsonl", "garbage\n");
  EXPECT_EQ(refusal(), path_of("peers/b.jsonl") + ":1" + no_line);
  write("a", "peers/b.jsonl", "");
  write("a", "summary.json", "[]");
  EXPECT_EQ(refusal(), path_of("summary.json") + ": is not a JSON object");
}

TEST_F(RunFilesTest, NoFileCanBeTooDeep) {
  const std::string deep = std::string(400000, '[') + std::string(400000, ']');
  write("a", "metrics.jsonl", "{\"step\":1,\"a\":" + deep + ",\"b\":0}\n");
  write("a", "summary.json",
        "{\"a\":" + deep + ",\"peers\":[{\"name\":" + deep + ",\"b\":0}],\"expelled\":[" + deep + "]}");
  EXPECT_EQ(read().last_step, 1);
}

TEST_F(RunFilesTest, NoFileCanHaveAnyNumberOfMetrics) {
  std::string line = "{\"step\":1";
  for (int i = 0; i < 300; ++i) line += fmt::format(",\"m{}\":1", i);
  write("a", "metrics.jsonl", line + "}\n");
  EXPECT_EQ(refusal(), path_of("metrics.jsonl") + ":1: has more than 200 different metrics");
}

}  // namespace
}  // namespace rookery::observe
