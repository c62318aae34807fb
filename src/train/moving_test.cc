#include "train/moving.h"

#include <gtest/gtest.h>

#include "train/arrange.h"

namespace rookery::train {
namespace {

Blueprint blueprint_of(std::vector<std::string> changes) {
  changes.insert(changes.begin(),
                 {"model.layers=6", "model.width=32", "model.heads=2", "model.context=16", "train.batch=4",
                  "train.micro_batches=2", "sync.method=diloco", "pipeline.schedule=1f1b", "swarm.peers=2"});
  return make_blueprint(config::load({}, changes));
}

// Computers that are all alike.
swarm::Means peer(const std::string& name) {
  swarm::Means means{.name = name, .host = "at-" + name};
  means.ready.layers.assign(8, {.forward = 0.01, .backward = 0.02});
  means.ready.update = 1e-9;
  return means;
}

// A run that began with two of them.
struct OngoingRun {
  explicit OngoingRun(const std::vector<std::string>& changes = {}) : blueprint(blueprint_of(changes)) {
    std::vector<swarm::Means> means = {peer("a"), peer("b")};
    means[0].links = {{.peer = 1, .bandwidth = 12.5e6, .latency = 0.005}};
    means[1].links = {{.peer = 0, .bandwidth = 12.5e6, .latency = 0.005}};
    measured = swarm_of(means, false);
    plan.peers.resize(2);
    for (std::size_t i = 0; i < 2; ++i) plan.peers[i].contact.name = means[i].name;
    arrange(blueprint, measured, plan);
    decided = config::changed(blueprint.settings, plan.settings);
  }

  bool moves(const std::vector<swarm::Means>& present, double seconds_left) const {
    return is_worth_moving({.blueprint = blueprint,
                            .decided = decided,
                            .measured = measured,
                            .plan = plan,
                            .present = present,
                            .seconds_left = seconds_left});
  }

  Blueprint blueprint;
  plan::Swarm measured;
  wire::Plan plan;
  config::Settings decided;
};

TEST(MovingTest, ASwarmThatHasGrownMovesIfEnoughIsLeftToDo) {
  const OngoingRun run;
  const std::vector<swarm::Means> four = {peer("a"), peer("b"), peer("c"), peer("d")};
  EXPECT_TRUE(run.moves(four, 10'000));
  EXPECT_FALSE(run.moves(four, 2 * cost_of_moving(run.measured, 1e5))) << "it would be over before that pays";
}

TEST(MovingTest, AsLongAsNothingHasChangedNobodyMoves) {
  const OngoingRun run;
  EXPECT_FALSE(run.moves({peer("a"), peer("b")}, 1e6));
}

// One is left, and does what it did before.
TEST(MovingTest, WhatIsNoBetterIsNotWorthIt) {
  OngoingRun run;
  run.plan.peers[1].here = false;
  EXPECT_FALSE(run.moves({peer("a")}, 1e6));
}

// Its process does the work of two; both would be one peer again.
TEST(MovingTest, WhoeverStandsInIsNoPeerOfItsOwn) {
  OngoingRun run;
  run.plan.peers[1].contact.name = "a-2";
  swarm::Means stand_in = peer("a-2");
  stand_in.host = "at-a";
  stand_in.stands_in = true;
  EXPECT_TRUE(run.moves({peer("a"), stand_in, peer("c"), peer("d"), peer("e")}, 10'000));
  EXPECT_FALSE(run.moves({peer("a"), stand_in}, 20));
}

TEST(MovingTest, NobodyMovesIfNoClusterCouldSave) {
  OngoingRun run;
  for (wire::PlannedPeer& place : run.plan.peers) place.here = false;
  EXPECT_FALSE(run.moves({peer("a"), peer("b"), peer("c")}, 1e6));
}

TEST(MovingTest, SomeRunsStayAsTheyArePlanned) {
  const auto can = [](const std::vector<std::string>& changes) {
    const config::Settings settings = blueprint_of(changes).settings;
    return can_move(settings, settings);
  };
  EXPECT_TRUE(can({}));
  EXPECT_FALSE(can({"swarm.replan=false"}));
  EXPECT_FALSE(can({"swarm.clusters=2"}));
  EXPECT_FALSE(can({"sync.method=palsgd"}));
  EXPECT_TRUE(can({"sync.method=palsgd", "sync.pull=every-step"}));
  EXPECT_TRUE(can({"sync.method=gossip"}));
  EXPECT_FALSE(can({"sync.method=gossip", "sync.codec=bf16"}));
  EXPECT_FALSE(can({"sync.method=none"})) << "each copy is something of its own";
}

TEST(MovingTest, WhoeverHasMeasuredAnotherModelIsNotReckonedWith) {
  const OngoingRun run;
  std::vector<swarm::Means> four = {peer("a"), peer("b"), peer("c"), peer("d")};
  four.back().ready.layers.pop_back();
  EXPECT_FALSE(run.moves(four, 10'000));
}

TEST(MovingTest, SlowLinksMakeMovingDear) {
  const OngoingRun run;
  EXPECT_NEAR(cost_of_moving(run.measured, 10e6), 8 + 2 * 200e6 / 12.5e6, 1e-6);
}

}  // namespace
}  // namespace rookery::train
