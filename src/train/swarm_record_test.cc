#include "train/swarm_record.h"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/virtual_world.h"

namespace rookery::train {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

// Two copies, on attic and barn.
class SwarmRecordTest : public testing::Test {
 protected:
  SwarmRecordTest()
      : root_(fs::path(testing::TempDir()) / testing::UnitTest::GetInstance()->current_test_info()->name()),
        blueprint_(make_blueprint(config::load(
            {}, std::vector<std::string>{"model.layers=1", "model.width=16", "model.heads=2", "model.context=16",
                                         "train.batch=4", "train.micro_batches=2", "swarm.peers=2", "swarm.clusters=2",
                                         "sync.method=diloco", "pipeline.schedule=1f1b"}))) {
    fs::remove_all(root_);
    fs::create_directories(root_);
    record_.emplace(world_.clock(), blueprint_, RunDirectory(root_), Position{},
                    SwarmRecordOptions{.tensorboard = false});
    plan_.generation = 1;
    plan_.step_seconds = 0.25;
    for (const char* name : {"attic", "barn"}) {
      const auto rank = static_cast<std::uint32_t>(plan_.peers.size());
      const auto layers = static_cast<std::uint32_t>(blueprint_.model->size());
      plan_.peers.push_back({.contact = {.name = name}, .cluster = rank, .end = layers});
    }
  }
  ~SwarmRecordTest() override { fs::remove_all(root_); }

  // The next generation, in which something has changed in a cluster.
  void replan(std::uint32_t cluster) {
    ++plan_.generation;
    plan_.peers[cluster].since = plan_.generation;
    record_->replanned(plan_);
  }

  void step(const char* peer, std::uint64_t number, std::uint64_t rounds_failed = 0) {
    record_->stepped(peer, {.step = number, .rounds_failed = rounds_failed});
  }

  std::vector<json> events(const std::string& kind) const {
    std::vector<json> events;
    std::ifstream file(root_ / "events.jsonl");
    for (std::string line; std::getline(file, line);) {
      json event = json::parse(line);
      if (event["event"] == kind) events.push_back(std::move(event));
    }
    return events;
  }

  fs::path root_;
  Blueprint blueprint_;
  VirtualWorld world_;
  std::optional<SwarmRecord> record_;
  wire::Plan plan_;
};

TEST_F(SwarmRecordTest, WhatIsPredictedIsWrittenBeforeTheFirstStep) {
  record_->planned(plan_);
  const std::vector<json> planned = events("planned");
  ASSERT_EQ(planned.size(), 1);
  EXPECT_EQ(planned[0]["generation"], 1);
  EXPECT_EQ(planned[0]["reason"], "all are here");
  EXPECT_EQ(planned[0]["predicted_step_seconds"], 0.25);
  EXPECT_THAT(planned[0]["text"].get<std::string>(), HasSubstr("generation 1, as all are here: a copy on each of"));
  EXPECT_THAT(planned[0]["text"].get<std::string>(), HasSubstr("a step is expected to take 250 ms"));
}

TEST_F(SwarmRecordTest, EveryGenerationIsWrittenWithItsReason) {
  record_->planned(plan_);
  record_->began();
  record_->lost("barn", "is silent");
  plan_.peers[1].here = false;
  replan(1);
  plan_.peers[1].contact.name = "cellar";
  plan_.peers[1].came = plan_.generation + 1;
  replan(1);
  plan_.peers[1].restores = true;
  replan(1);
  plan_.peers[1].restores = false;
  plan_.peers[1].here = true;
  replan(1);
  record_->stuck();
  replan(0);
  std::vector<std::string> reasons;
  std::uint32_t generation = 0;
  for (const json& event : events("planned")) {
    EXPECT_EQ(event["generation"], ++generation);
    EXPECT_THAT(event["text"].get<std::string>(), HasSubstr(event["reason"].get<std::string>()));
    reasons.push_back(event["reason"]);
  }
  EXPECT_THAT(reasons, ElementsAre("all are here", "barn was lost", "cellar has come", "cluster 1 gets what it lacks",
                                   "cluster 1 is whole again", "nobody got on"));
}

// Whoever was not there all the time took as long for a step as the others.
TEST_F(SwarmRecordTest, AStepTakesWhatItTookThoseWhoWereThere) {
  record_->planned(plan_);
  record_->began();
  for (std::uint64_t number = 1; number <= 4; ++number) {
    for (const char* name : {"attic", "barn"}) {
      if (number == 3 && name == std::string("barn")) record_->lost("barn", "its link was closed");
      if (number >= 3 && name == std::string("barn")) continue;
      record_->stepped(name, {.step = number, .samples = 8, .compute_seconds = 0.2, .wait_seconds = 0.1});
    }
  }
  const observe::Summary summary = record_->finish();
  ASSERT_TRUE(summary.measured_step_seconds);
  EXPECT_NEAR(*summary.measured_step_seconds, 0.3, 1e-9);
  EXPECT_NEAR(summary.samples_per_second, static_cast<double>(summary.samples) / 1.2, 1e-6);
}

TEST_F(SwarmRecordTest, ARoundThatFailedIsAnEventOfEachPeer) {
  record_->planned(plan_);
  record_->began();
  step("attic", 1);
  step("barn", 1);
  EXPECT_TRUE(events("round failed").empty());
  step("attic", 2, 1);
  step("barn", 2);
  step("attic", 3, 1);
  step("attic", 4, 3);
  record_->ended("barn", {.rounds_failed = 1});  // in the end
  const std::vector<json> failed = events("round failed");
  ASSERT_EQ(failed.size(), 3);
  EXPECT_EQ(failed[0]["peer"], "attic");
  EXPECT_EQ(failed[0]["text"], "1 so far");
  EXPECT_EQ(failed[1]["text"], "3 so far");
  EXPECT_EQ(failed[2]["peer"], "barn");
}

// A step that somebody had done who was lost is done again by whoever comes: its samples count once.
// A copy that is lost takes along what it has learnt since the last round, which is after step 96 of 100.
TEST_F(SwarmRecordTest, WhatNobodyElseKnewIsForgotten) {
  plan_.settings = {"sync.interval=32", "sync.warmup_steps=0"};
  record_->planned(plan_);
  record_->began();
  for (std::uint64_t number = 1; number <= 100; ++number) {
    step("attic", number);
    step("barn", number);
  }
  record_->lost("barn", "its link was closed");
  step("attic", 101);
  const observe::Summary summary = record_->finish();
  EXPECT_THAT(summary.forgotten, ElementsAre(observe::ClusterSteps{.cluster = 1, .first_step = 97, .last_step = 100}));
  EXPECT_THAT(summary.left_out, ElementsAre(observe::ClusterSteps{.cluster = 1, .first_step = 101, .last_step = 101}));
  ASSERT_TRUE(summary.arrangement);
  EXPECT_EQ(summary.arrangement->clusters, 2);
  EXPECT_EQ(summary.arrangement->method, "diloco");
  EXPECT_EQ(summary.arrangement->interval, 32);
}

TEST_F(SwarmRecordTest, WhoeverIsRelievedIsNoFailure) {
  record_->planned(plan_);
  record_->began();
  record_->relieved("barn");
  record_->lost("barn", "stood in, and somebody has come for its place");
  EXPECT_EQ(events("relieved").size(), 1u);
  EXPECT_TRUE(events("lost").empty());
  replan(1);
  EXPECT_EQ(events("planned").back()["reason"], "barn was relieved");
  ++plan_.generation;  // and nobody knows why
  record_->replanned(plan_);
  EXPECT_EQ(events("planned").back()["reason"], "");
  EXPECT_EQ(events("planned").back()["text"], "generation 3");
}

TEST_F(SwarmRecordTest, WhatIsDoneAgainCountsOnce) {
  record_.emplace(world_.clock(), blueprint_, RunDirectory(root_), Position{},
                  SwarmRecordOptions{.tensorboard = false, .changing = true});
  const auto train = [&](const char* peer, std::uint64_t number) {
    record_->stepped(peer, {.step = number, .samples = 2});
  };
  record_->planned(plan_);
  record_->began();
  train("attic", 1);
  train("barn", 1);
  train("barn", 2);  // ahead of the other
  record_->pauses("barn");
  plan_.peers[1].contact.name = "cellar";
  record_->begins(plan_.peers[1], 1);
  train("cellar", 2);
  train("attic", 2);
  std::ifstream metrics(root_ / "metrics.jsonl");
  std::vector<std::int64_t> samples;
  for (std::string line; std::getline(metrics, line);) samples.push_back(json::parse(line)["samples"]);
  EXPECT_THAT(samples, ElementsAre(4, 8));
}

// One step that took long, as others waited for somebody, does not change what steps usually take.
TEST_F(SwarmRecordTest, WhatHeldUpOneStepIsNotUsual) {
  record_->planned(plan_);
  record_->began();
  world_.run([&]() -> Task<> {
    for (std::uint64_t number = 1; number <= 5; ++number) {
      auto waiting = world_.clock().sleep_for(number == 3 ? std::chrono::seconds(60) : std::chrono::seconds(1));
      co_await std::move(waiting);
      step("attic", number);
      step("barn", number);
    }
  }());
  EXPECT_NEAR(record_->usual_step_seconds(), 1, 1e-6);
  EXPECT_GT(record_->step_seconds(), 10);
}

// Who was expelled before another coordinator took up the run is in its summary.
TEST_F(SwarmRecordTest, WhoWasExpelledBeforeItWasTakenUpIsRemembered) {
  for (const char* name : {"long ago", "barn", "cellar"}) record_->expelled(name, "lied");
  record_->take_up_expelled(2);
  record_->taken_up(plan_);
  EXPECT_EQ(record_->finish().expelled, (std::vector<std::string>{"barn", "cellar"}));
}

// What had failed before another coordinator took up the run was said by the one before.
TEST_F(SwarmRecordTest, WhatFailedBeforeItWasTakenUpIsNotSaidAgain) {
  record_->taken_up(plan_);
  step("attic", 1, 7);
  EXPECT_TRUE(events("round failed").empty());
  step("attic", 2, 8);
  EXPECT_EQ(events("round failed").size(), 1);
}

}  // namespace
}  // namespace rookery::train
