#include "train/arrange.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "train/wiring.h"

namespace rookery::train {
namespace {

using testing::AnyOf;
using testing::ElementsAre;
using testing::HasSubstr;

Blueprint blueprint_of(std::vector<std::string> changes) {
  changes.insert(changes.begin(), {"model.layers=6", "model.width=32", "model.heads=2", "model.context=16",
                                   "train.batch=4", "train.micro_batches=2"});
  return make_blueprint(config::load({}, changes));
}

swarm::Means with_speed(double speed) {
  swarm::Means means;
  means.ready.speed = speed;
  return means;
}

wire::Plan arranged(const std::vector<std::string>& changes, const std::vector<swarm::Means>& means) {
  const Blueprint blueprint = blueprint_of(changes);
  wire::Plan plan;
  plan.peers.resize(means.size());
  arrange(blueprint, swarm_of(means, false), plan);
  return plan;
}

// Of the clusters.
std::vector<std::size_t> sizes_of(const wire::Plan& plan) {
  std::vector<std::size_t> sizes;
  for (const auto& ranks : Clusters(plan, 8).ranks) sizes.push_back(ranks.size());
  return sizes;
}

std::string refusal(const std::vector<std::string>& changes) {
  try {
    check_arrangement(config::load({}, changes), 8);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(ArrangeTest, WithoutLimitsEveryPeerHasACopy) {
  const wire::Plan plan = arranged({"swarm.peers=3"}, std::vector<swarm::Means>(3));
  EXPECT_THAT(sizes_of(plan), ElementsAre(1, 1, 1));
}

TEST(ArrangeTest, ClustersAreAsLargeAsTheSettingsSay) {
  const std::vector<swarm::Means> means(5);
  EXPECT_THAT(sizes_of(arranged({"swarm.peers=5", "swarm.clusters=2"}, means)), ElementsAre(2, 3));
  EXPECT_THAT(sizes_of(arranged({"swarm.peers=5", "swarm.clusters=[4, 1]"}, means)), ElementsAre(4, 1));
  EXPECT_THAT(sizes_of(arranged({"swarm.peers=5", "swarm.clusters=1"}, means)), ElementsAre(5));
}

TEST(ArrangeTest, CutsByHandAreTakenAsTheyAre) {
  const wire::Plan plan = arranged({"swarm.peers=4", "pipeline.stages=[[0, 1], [1, 8]]"}, std::vector<swarm::Means>(4));
  EXPECT_THAT(sizes_of(plan), ElementsAre(2, 2));
  for (const wire::PlannedPeer& peer : plan.peers) EXPECT_EQ(peer.end, peer.stage == 0 ? 1u : 8u);
  EXPECT_GT(plan.border_bytes, 0u);
}

// Nor does it end the run of all others.
TEST(ArrangeTest, WhoeverHasMeasuredAnotherModelCountsAsNotMeasured) {
  std::vector<swarm::Means> means(3);
  for (swarm::Means& own : means) own.ready.layers.assign(8, {.forward = 0.01, .backward = 0.02});
  const std::vector<std::string> settings = {"swarm.peers=3", "swarm.clusters=1"};
  EXPECT_GT(arranged(settings, means).step_seconds, 0);
  for (const std::size_t layers : {7u, 1000u}) {
    means[1].ready.layers.assign(layers, {.forward = 100, .backward = 200});
    const wire::Plan plan = arranged(settings, means);
    EXPECT_THAT(sizes_of(plan), ElementsAre(3));
    EXPECT_EQ(plan.step_seconds, 0) << "nobody knows";
  }
}

// With slow links rounds are rare; with fast ones they are as often as is good for the loss.
TEST(ArrangeTest, WhatAMethodLeavesOpenIsChosen) {
  const auto chosen = [](double bandwidth, const std::string& method, const std::string& more) {
    std::vector<swarm::Means> means(3);
    for (std::size_t i = 0; i < 3; ++i) {
      means[i].ready.layers.assign(8, {.forward = 0.01, .backward = 0.02});
      for (std::size_t other = 0; other < 3; ++other) {
        if (other != i)
          means[i].links.push_back(
              {.peer = static_cast<std::uint32_t>(other), .bandwidth = bandwidth, .latency = 1e-3});
      }
    }
    return arranged({"swarm.peers=3", "swarm.clusters=3", "train.steps=2000", "pipeline.schedule=1f1b",
                     "sync.method=" + method, more},
                    means)
        .settings;
  };
  EXPECT_THAT(chosen(1e11, "diloco", "train.seed=1"), ElementsAre("sync.interval=8"));
  EXPECT_THAT(chosen(1e3, "diloco", "train.seed=1"), ElementsAre("sync.interval=128"));
  EXPECT_THAT(chosen(1e3, "diloco", "sync.interval=20"), ElementsAre());
  EXPECT_THAT(chosen(1e3, "diloco", "train.steps=100"), ElementsAre("sync.interval=8"));
  EXPECT_THAT(chosen(1e3, "allreduce", "train.seed=1"), ElementsAre());
  EXPECT_THAT(chosen(1e3, "diloco", "sync.delay=60"), ElementsAre("sync.interval=128"));
  EXPECT_THAT(chosen(1e9, "gossip", "sync.topology=finite"), ElementsAre());
  EXPECT_THAT(chosen(1e9, "gossip", "sync.topology=bandwidth-aware"),
              ElementsAre(AnyOf("sync.topology=auto", "sync.topology=ring")));
}

TEST(ArrangeTest, AFasterPeerGetsMoreLayers) {
  const std::vector<swarm::Means> means = {with_speed(0.2), with_speed(1)};
  const wire::Plan plan = arranged({"swarm.peers=2", "swarm.clusters=1"}, means);
  EXPECT_LT(plan.peers[0].end, 4u);
}

// What was measured can be written down, and planned with again.
TEST(ArrangeTest, PeersAndLinksCanBePutInWords) {
  plan::Swarm swarm;
  swarm.peers.resize(3);
  const auto layers = std::make_shared<std::vector<plan::LayerTimes>>(8, plan::LayerTimes{0.25, 0.5});
  for (std::size_t i = 0; i < 3; ++i) swarm.peers[i].name = fmt::format("p{}", i), swarm.peers[i].layers = layers;
  swarm.peers[0].pace = 0.5;
  swarm.peers[1].memory = 3 << 20;
  swarm.peers[1].uplink = 1e6;
  swarm.peers[2].step_time = 0.125;
  swarm.peers[2].pace = 0.25;
  swarm.links[{0, 1}] = {.bandwidth = 1e6, .latency = 0.25};
  swarm.links[{1, 0}] = {.bandwidth = 2e6, .latency = 0.5};
  swarm.links[{2, 1}] = {.bandwidth = 5e6};

  const std::string text = config::to_toml(description_of(swarm));
  const Profile here{.layers = plan::ModelProfile(8, {.forward = 0.5, .backward = 1}), .update = 1e-6};
  const plan::Swarm again = described_swarm(config::parse_peers(text, "peers.toml"), here);
  ASSERT_EQ(again.peers.size(), 3u) << text;
  EXPECT_EQ(again.peers[0].speed, 1);  // half of what it could do, but this computer is half as fast
  EXPECT_EQ(again.peers[1].speed, 2);
  EXPECT_EQ(again.peers[1].update, 0.5e-6);
  EXPECT_FALSE(again.peers[1].step_time);
  EXPECT_EQ(again.peers[2].step_time, 0.125 / 0.25);
  EXPECT_EQ(again.peers[1].memory, 3 << 20);
  EXPECT_EQ(again.peers[1].uplink, 1e6);
  EXPECT_EQ(again.links.at({0, 1}), (plan::Link{.bandwidth = 1e6, .latency = 0.5}));
  EXPECT_EQ(again.links.at({1, 2}), (plan::Link{.bandwidth = 5e6}));
  EXPECT_FALSE(again.links.contains({0, 2}));
}

// Each with each, in three lines.
TEST(ArrangeTest, TooManyLinksInWordsAreRefused) {
  const auto described = [](int peers) {
    const std::string text = fmt::format(
        "[[peer]]\nname = \"lab\"\ncount = {}\n[[link]]\nfrom = \"lab\"\nto = \"lab\"\nlatency = \"1ms\"\n", peers);
    return described_swarm(config::parse_peers(text, "peers.toml"), Profile{});
  };
  EXPECT_EQ(described(50).links.size(), 50u * 49);
  try {
    described(10'000);
    FAIL();
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("from 10000 'lab' to 10000 'lab'"));
  }
}

// As few stages as fit, where there is nothing to gain by them, and each within what its peer may use.
TEST(ArrangeTest, LittleMemoryMakesStages) {
  const std::vector<std::string> settings = {"swarm.peers=4", "pipeline.schedule=1f1b", "train.micro_batches=1",
                                             "model.width=256"};
  const auto with = [&](std::uint64_t bytes) {
    return arranged(settings, std::vector<swarm::Means>(4, {.memory = bytes}));
  };
  const auto most = [](const wire::Plan& plan) {
    return std::ranges::max(plan.peers, {}, &wire::PlannedPeer::memory).memory;
  };
  const wire::Plan whole = with(1 << 30);
  EXPECT_THAT(sizes_of(whole), ElementsAre(1, 1, 1, 1));
  const std::uint64_t needed = most(whole);
  EXPECT_THAT(sizes_of(with(needed * 8 / 10)), ElementsAre(2, 2));
  EXPECT_LE(most(with(needed * 8 / 10)), needed * 8 / 10);
  EXPECT_THAT(sizes_of(with(needed * 4 / 10)), ElementsAre(4));
  EXPECT_LE(most(with(needed * 4 / 10)), needed * 4 / 10);
  EXPECT_THROW(with(needed / 20), InputError);
}

TEST(ArrangeTest, WhatCannotBeIsSaidInOneSentence) {
  EXPECT_EQ(refusal({"swarm.peers=4", "pipeline.stages=[[0, 4], [4, 8]]"}), "");
  EXPECT_EQ(refusal({"swarm.peers=8", "swarm.clusters=1"}), "");
  EXPECT_THAT(refusal({"swarm.peers=9", "swarm.clusters=1"}), HasSubstr("only 8 layers"));
  EXPECT_THAT(refusal({"swarm.peers=3", "pipeline.stages=[[0, 4], [4, 8]]"}), HasSubstr("cannot make whole clusters"));
  EXPECT_THAT(refusal({"swarm.peers=4", "swarm.clusters=1", "pipeline.stages=[[0, 4], [4, 8]]"}),
              HasSubstr("no cluster has 2 peers"));
  EXPECT_THAT(refusal({"swarm.peers=2", "pipeline.stages=[[0, 4], [4, 9]]"}), HasSubstr("pipeline.stages ends at"));
}

// Of five peers, the first of which sends to the others like this, alone and while it sends to another one, too.
double found_uplink(const std::vector<std::pair<double, double>>& rates) {
  std::vector<swarm::Means> means(rates.size() + 1);
  for (std::size_t i = 0; i < rates.size(); ++i) {
    means[i + 1].links = {{.peer = 0, .bandwidth = rates[i].first, .while_sharing = rates[i].second}};
  }
  return swarm_of(means, false).peers.front().uplink;
}

TEST(ArrangeTest, ACardIsWhatAllLinksShare) {
  EXPECT_DOUBLE_EQ(found_uplink({{10e6, 5e6}, {10e6, 5e6}, {10e6, 5e6}, {10e6, 5e6}}), 10e6);
  EXPECT_DOUBLE_EQ(found_uplink({{10e6, 4e6}, {8e6, 5e6}}), 9e6);
  EXPECT_TRUE(std::isinf(found_uplink({{10e6, 10e6}, {10e6, 9e6}, {10e6, 10e6}, {10e6, 10e6}})));
  EXPECT_TRUE(std::isinf(found_uplink({{6e6, 6e6}, {6e6, 6e6}, {90e6, 6e6}, {6e6, 6e6}})))
      << "one link only seemed fast";
}

// A survey of many lets each meet some of the others, and a few more only while they send to others, too.
TEST(ArrangeTest, LinksThatNobodyHasMeasuredAreAsTheOthersAre) {
  std::vector<swarm::Means> means(4);
  means[0].links = {{.peer = 1, .bandwidth = 1e6, .latency = 0.01}, {.peer = 2, .while_sharing = 4e6}};
  means[1].links = {{.peer = 0, .bandwidth = 3e6, .latency = 0.03}};
  means[2].links = {{.peer = 0, .bandwidth = 2e6, .latency = 0.02}, {.peer = 77, .bandwidth = 1, .latency = 1}};
  means[3].links = {{.peer = 2, .bandwidth = 2e6, .latency = 0.02}};
  const plan::Swarm swarm = swarm_of(means, false);
  EXPECT_EQ(swarm.links.size(), 12u);
  EXPECT_EQ(swarm.link(1, 0), (plan::Link{.bandwidth = 1e6, .latency = 0.01}));
  EXPECT_EQ(swarm.link(0, 1), (plan::Link{.bandwidth = 3e6, .latency = 0.03}));
  EXPECT_EQ(swarm.link(2, 0), (plan::Link{.bandwidth = 4e6, .latency = 0.02})) << "at least that";
  EXPECT_EQ(swarm.link(3, 1), (plan::Link{.bandwidth = 2e6, .latency = 0.02}));
  EXPECT_TRUE(swarm_of(std::vector<swarm::Means>(4), false).links.empty()) << "nothing was measured";
}

TEST(ArrangeTest, ALinkThatWasOnlySharedSaysNothingAboutACard) {
  std::vector<swarm::Means> means(5);
  for (std::size_t i = 1; i < 3; ++i) {
    means[i].links = {{.peer = 0, .bandwidth = 10e6, .latency = 0.01, .while_sharing = 5e6}};
    means[i + 2].links = {{.peer = 0, .while_sharing = 5e6}};
  }
  EXPECT_DOUBLE_EQ(swarm_of(means, false).peers.front().uplink, 10e6);
}

// What training has found out about links.
TEST(ArrangeTest, LinksAreLearntFromWhatTheyCarry) {
  plan::Swarm swarm;
  swarm.peers.resize(3);
  swarm.links[{1, 0}] = {.bandwidth = 2e6, .latency = 0.5};
  learn(swarm, 0, {{.peer = 1, .bandwidth = 4e6}, {.peer = 2, .bandwidth = 1e6}, {.peer = 77, .bandwidth = 1}});
  EXPECT_DOUBLE_EQ(swarm.links.at({1, 0}).bandwidth, 4e6);
  EXPECT_EQ(swarm.links.size(), 1u);
  learn(swarm, 0, {{.peer = 1, .bandwidth = 2e6}});  // or it had nothing to do
  EXPECT_DOUBLE_EQ(swarm.links.at({1, 0}).bandwidth, 4e6);
}

}  // namespace
}  // namespace rookery::train
