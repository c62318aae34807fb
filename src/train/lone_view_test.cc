#include "train/lone_view.h"

#include <future>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace rookery::train {
namespace {

using dashboard::Json;
using dashboard::Phase;

class LoneViewTest : public testing::Test {
 protected:
  Json state() {
    std::promise<Json> state;
    dashboard_.show([&](dashboard::View& view, double seconds) { state.set_value(state_of(view, seconds)); });
    return state.get_future().get();
  }

  void set_phase(Phase phase) {
    dashboard_.show([=](dashboard::View& view, double) { view.run.phase = phase; });
  }

  std::vector<std::string> events() {
    std::vector<std::string> events;
    const Json shown = state();
    for (const Json& event : shown["events"]) events.push_back(event["event"]);
    return events;
  }

  dashboard::Dashboard dashboard_{{}, [](auto, auto&) { return std::nullopt; }};
  LoneView view_{dashboard_, 4, {.step_seconds = 0.25, .memory = 1 << 20}};
};

TEST_F(LoneViewTest, WhatIsExpectedIsShown) {
  const Json shown = state();
  EXPECT_EQ(shown["run"]["phase"], "training");
  EXPECT_EQ(shown["plan"]["predicted_step_seconds"], 0.25);
  const Json memory = shown["peers"][0]["memory"];
  EXPECT_EQ(memory["planned"], 1 << 20);
  EXPECT_EQ(memory["limit"], nullptr);
  EXPECT_GT(memory["available"], memory["resident"]);
}

TEST_F(LoneViewTest, APauseIsOneWhenTheStepIsDone) {
  view_.held();
  EXPECT_EQ(state()["run"]["phase"], "training");  // released meanwhile
  set_phase(Phase::kPausing);
  view_.held();
  view_.held();
  view_.saved(3);
  set_phase(Phase::kTraining);
  view_.released();
  EXPECT_THAT(events(), testing::ElementsAre("began", "paused", "checkpoint", "resumed"));
  EXPECT_EQ(state()["events"][2]["text"], "at step 3");
}

TEST_F(LoneViewTest, WhatFailsIsShownToHaveFailed) {
  view_.over(Phase::kFailed, "the loss is no longer a number");
  const Json shown = state();
  EXPECT_EQ(shown["run"]["phase"], "failed");
  EXPECT_EQ(shown["run"]["why"], "the loss is no longer a number");
  EXPECT_EQ(shown["peers"][0]["state"], "ended");
  EXPECT_THAT(events(), testing::ElementsAre("began", "failed"));
}

TEST_F(LoneViewTest, AnEndIsSaidOnce) {
  view_.finish({});
  view_.over(Phase::kEnded, "it was stopped");
  EXPECT_EQ(state()["run"]["why"], "it was stopped");
  EXPECT_THAT(events(), testing::ElementsAre("began", "ended"));
}

}  // namespace
}  // namespace rookery::train
