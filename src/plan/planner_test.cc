#include "plan/planner.h"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/random.h"

namespace rookery::plan {
namespace {

using testing::HasSubstr;

ModelProfile layers(std::size_t count) {
  return ModelProfile(count, {.parameters = 1'000'000,
                              .forward = 0.1,
                              .backward = 0.2,
                              .activations = 1'000'000,
                              .border = 100'000,
                              .gradients = 100'000});
}

Swarm random_swarm(Random& random, std::size_t peers) {
  Swarm swarm;
  for (std::size_t i = 0; i < peers; ++i) {
    Peer& peer = swarm.peers.emplace_back();
    peer.name = fmt::format("p{}", i);
    peer.speed = 0.25 + 2 * random.uniform();
    peer.uplink = peer.downlink = 1e6 * (1 + 99 * random.uniform());
    peer.latency = 0.01 * random.uniform();
  }
  return swarm;
}

Wishes all_of(std::uint64_t micro_batches) {
  Wishes wishes;
  wishes.schedules.clear();
  for (const Schedule schedule : {Schedule::k1f1b, Schedule::kAsync}) {
    wishes.schedules.push_back({.schedule = schedule, .micro_batches = micro_batches});
  }
  wishes.methods = {{.method = Method::kAllReduce},
                    {.method = Method::kGossip},
                    {.method = Method::kDiloco, .interval = 32},
                    {.method = Method::kPalsgd, .interval = 32, .pull_probability = 0.1}};
  return wishes;
}

void expect_sound(const Option& option, const Job& job, const Swarm& swarm) {
  std::set<std::size_t> seen;
  for (std::size_t c = 0; c < option.candidate.clusters.size(); ++c) {
    const auto& peers = option.candidate.clusters[c];
    ASSERT_EQ(peers.size(), option.candidate.partitions[c].cut.size());
    for (std::size_t s = 0; s < peers.size(); ++s) {
      EXPECT_TRUE(seen.insert(peers[s]).second);
      const auto& memory = swarm.peers[peers[s]].memory;
      if (memory) {
        EXPECT_LE(option.candidate.partitions[c].memory[s].total(), *memory);
      }
    }
    EXPECT_EQ(option.candidate.partitions[c].cut.back().end, job.model.size());
  }
  EXPECT_EQ(seen.size(), swarm.peers.size());
}

TEST(PlannerTest, EveryOptionUsesEveryPeerOnceWithinItsMemory) {
  Random random({3});
  for (int trial = 0; trial < 12; ++trial) {
    const Job job{.model = layers(4 + random.below(8)), .samples = 8};
    Swarm swarm = random_swarm(random, 1 + random.below(9));
    for (Peer& peer : swarm.peers) {
      if (random.below(2) == 0) peer.memory = static_cast<Bytes>(60'000'000 + random.below(200'000'000));
    }
    try {
      for (const Option& option : decide(job, swarm, all_of(4))) expect_sound(option, job, swarm);
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), HasSubstr("fit"));
    }
  }
}

TEST(PlannerTest, FastLinksMeanAllReduceAndSlowOnesALocalMethod) {
  const Job job{.model = layers(8), .samples = 8};
  const auto chosen = [&](double bandwidth) {
    Swarm swarm;
    swarm.peers.resize(4);
    for (Peer& peer : swarm.peers) peer.uplink = peer.downlink = bandwidth;
    Wishes wishes = all_of(1);
    wishes.sizes = std::vector<std::size_t>(4, 1);
    return decide(job, swarm, wishes).front().candidate.method.method;
  };
  EXPECT_EQ(chosen(1e10), Method::kAllReduce);
  EXPECT_TRUE(is_local(chosen(1e5)));
}

TEST(PlannerTest, WhatNobodyCanHoldAloneIsShared) {
  const Job job{.model = layers(8), .samples = 8};
  Swarm swarm;
  swarm.peers.resize(6);
  const Bytes whole =
      stage_memory(job.model, {0, 8}, {.schedule = Schedule::k1f1b, .micro_batches = 4}, {}, {}).total();
  for (Peer& peer : swarm.peers) peer.memory = whole * 6 / 10;
  const Option best = decide(job, swarm, all_of(4)).front();
  expect_sound(best, job, swarm);
  EXPECT_LE(best.candidate.clusters.size(), 3u);
  for (Peer& peer : swarm.peers) peer.memory = whole / 100;
  try {
    decide(job, swarm, all_of(4));
    FAIL();
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("the model does not fit"));
  }
}

std::string refusal(const Job& job, const Swarm& swarm, const Wishes& wishes) {
  try {
    decide(job, swarm, wishes);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

// One that can hold nothing would end it for all.
TEST(PlannerTest, WhoeverCanHoldNothingIsNamed) {
  const Job job{.model = layers(4), .samples = 8};
  Swarm swarm;
  swarm.peers.resize(3);
  for (std::size_t i = 0; i < 3; ++i) swarm.peers[i].name = fmt::format("p{}", i), swarm.peers[i].memory = 1 << 30;
  swarm.links[{0, 2}] = {.bandwidth = 1e6};
  EXPECT_EQ(refusal(job, swarm, all_of(4)), "");
  swarm.peers[1].memory = 1 << 20;
  const std::string one = refusal(job, swarm, all_of(4));
  EXPECT_THAT(one, HasSubstr("the model does not fit: even with the best cut stage"));
  EXPECT_THAT(one, HasSubstr("its peer may use 1.0 MiB"));
  EXPECT_THAT(one, HasSubstr("; p1 cannot hold even the smallest layer ("));
  EXPECT_THAT(one, HasSubstr("the others can train without it"));
  Wishes pipeline = all_of(4);
  pipeline.sizes = std::vector<std::size_t>{3};
  EXPECT_THAT(refusal(job, swarm, pipeline), HasSubstr("p1 cannot hold even"));

  swarm.peers.resize(12, swarm.peers[1]);  // more than there are layers: some of them would be left out
  const std::string many = refusal(job, swarm, all_of(4));
  EXPECT_THAT(many, HasSubstr("and 2 more cannot hold even"));
  EXPECT_THAT(many, HasSubstr("the others can train without them"));

  swarm.peers.resize(2);
  swarm.links.clear();
  swarm.peers[0].memory = 30 << 20;  // a layer, but not all of them
  EXPECT_THAT(refusal(job, swarm, all_of(4)), HasSubstr("p1 cannot hold even"));
  EXPECT_THAT(refusal(job, swarm, all_of(4)), testing::Not(HasSubstr("the others can train")));
  swarm.peers[0].memory = 1 << 20;
  EXPECT_THAT(refusal(job, swarm, all_of(4)), testing::Not(HasSubstr("cannot hold"))) << "nobody can";
}

TEST(PlannerTest, SlowPeersDoNotHoldUpFastOnes) {
  const Job job{.model = layers(12), .samples = 8};
  Swarm swarm;
  swarm.peers.resize(6);
  for (std::size_t i = 0; i < 6; ++i) {
    swarm.peers[i].speed = i < 3 ? 1 : 0.1;
    swarm.peers[i].uplink = swarm.peers[i].downlink = 1e9;
  }
  const std::vector<Option> options = decide(job, swarm, all_of(8));
  Wishes alone = all_of(8);
  alone.sizes = std::vector<std::size_t>(6, 1);
  EXPECT_GT(options.front().value(), 2 * decide(job, swarm, alone).front().value());
}

// Who says how many clusters there are has not said who belongs to which; but peers stay in their order without a
// reason.
TEST(PlannerTest, AsManyClustersAreFormedAsAreWanted) {
  const Job job{.model = layers(12), .samples = 8};
  const auto clusters = [&](const std::vector<double>& speeds, bool may_form) {
    Swarm swarm;
    for (const double speed : speeds) swarm.peers.push_back({.speed = speed, .uplink = 1e9, .downlink = 1e9});
    Wishes wishes = all_of(4);
    wishes.sizes = std::vector<std::size_t>{2, 2};
    wishes.may_form = may_form;
    const Option best = decide(job, swarm, wishes).front();
    expect_sound(best, job, swarm);
    std::set<std::set<std::size_t>> found;
    for (const auto& peers : best.candidate.clusters) found.emplace(peers.begin(), peers.end());
    return found;
  };
  using Clusters = std::set<std::set<std::size_t>>;
  EXPECT_EQ(clusters({2, 1, 1, 0.5}, true), (Clusters{{0, 3}, {1, 2}}));
  EXPECT_EQ(clusters({2, 1, 1, 0.5}, false), (Clusters{{0, 1}, {2, 3}}));
  EXPECT_EQ(clusters({1.01, 1, 1, 0.99}, true), (Clusters{{0, 1}, {2, 3}}));
}

TEST(PlannerTest, EveryNumberOfClustersHasAReason) {
  const Job job{.model = layers(12), .samples = 8};
  Swarm swarm;
  swarm.peers.resize(5, {.uplink = 1e7, .downlink = 1e7});
  const std::vector<Option> options = decide(job, swarm, all_of(4));
  std::set<std::size_t> numbers;
  for (const Option& option : options) {
    numbers.insert(option.candidate.clusters.size());
    EXPECT_LE(option.value(), options.front().value() * 1.1);
    EXPECT_NE(why_not(option, options.front()), "");
  }
  EXPECT_EQ(numbers, (std::set<std::size_t>{1, 2, 3, 4, 5}));
}

TEST(PlannerTest, TheReasonIsWhatMattersMost) {
  const auto option = [](double rate, double worth, double waits) {
    return Option{.candidate = {}, .prediction = {.exposed_share = waits, .samples_per_second = rate}, .worth = worth};
  };
  const Option best = option(100, 1, 0.1);
  EXPECT_EQ(why_not(option(50, 1, 0.5), best), "100% slower: peers wait for 50% of the time, not 10%");
  EXPECT_EQ(why_not(option(50, 1, 0.1), best), "100% slower: 50.0 samples/s, not 100.0");
  EXPECT_EQ(why_not(option(80, 0.5, 0.5), best), "150% slower: a sample is worth 0.50, not 1.00");
  EXPECT_EQ(why_not(option(100, 1, 0.5), best), "no better");
  EXPECT_EQ(why_not(option(101, 1, 0.5), best), "only 1% better");
}

TEST(PlannerTest, RingsAvoidTheSlowestLink) {
  Swarm swarm;
  swarm.peers.resize(6);
  Formation clusters;
  std::vector<Cut> cuts;
  for (std::size_t i = 0; i < 6; ++i) {
    clusters.push_back({i});
    cuts.push_back({{0, 3}});
    for (std::size_t j = 0; j < 6; ++j) {
      const bool near = (i / 3 == j / 3) || (i % 3 == j % 3);
      if (i != j) swarm.links[{i, j}] = {.bandwidth = near ? 1e8 : 1e5};
    }
  }
  const std::vector<std::size_t> order = ring_order(swarm, clusters, cuts, 3);
  for (std::size_t i = 0; i < order.size(); ++i) {
    EXPECT_EQ(swarm.link(order[i], order[(i + 1) % 6]).bandwidth, 1e8);
  }
}

// A topology that crosses a shared card once is better where four share it.
TEST(PlannerTest, AMethodGetsTheBestOfItsSettings) {
  const Job job{.model = layers(4), .samples = 8};
  Swarm swarm;
  swarm.peers.resize(8);
  for (std::size_t i = 0; i < 8; ++i) {
    swarm.peers[i].host = i < 4 ? "left" : "right";
    swarm.peers[i].uplink = swarm.peers[i].downlink = 1e7;
  }
  Wishes wishes{.sizes = std::vector<std::size_t>(8, 1), .methods = {{.method = Method::kGossip}}};
  EXPECT_EQ(decide(job, swarm, wishes).front().candidate.method.topology, "auto");
  wishes.variants = [](const Candidate& candidate) {
    std::vector<MethodOptions> variants;
    for (const char* const topology : {"complete", "alternating-exp-ring", "no such topology"}) {
      variants.push_back(candidate.method);
      variants.back().topology = topology;
    }
    return variants;
  };
  const Option best = decide(job, swarm, wishes).front();
  EXPECT_EQ(best.candidate.method.topology, "alternating-exp-ring");
  EXPECT_EQ(best.value(), decide(job, swarm, wishes).front().value());
}

// What is measured in docs/runtime-model.md, of a loss that takes 13,600 samples with all-reduce, and half of that run
// with two clusters.
TEST(PlannerTest, ASampleIsWorthLessTheRarerRoundsAre) {
  const auto cost = [](Method method, std::size_t clusters, std::uint64_t interval) {
    Candidate candidate{.method = {.method = method, .interval = interval}};
    candidate.clusters.resize(clusters);
    const double other = worth(candidate, Goal::kLoss);
    candidate.method.method = Method::kAllReduce;
    return worth(candidate, Goal::kLoss) / other;
  };
  EXPECT_NEAR(cost(Method::kGossip, 4, 50), 18240.0 / 13600, 0.05);
  const std::vector<std::pair<std::uint64_t, double>> of_local_sgd = {
      {8, 18880}, {16, 19520}, {32, 20160}, {64, 21120}, {128, 21440}};
  for (const auto& [interval, samples] : of_local_sgd) {
    EXPECT_NEAR(cost(Method::kLocalSgd, 4, interval), samples / 13600, 0.05) << interval;
  }
  const std::vector<std::pair<std::uint64_t, double>> of_diloco = {
      {8, 13440}, {16, 14080}, {32, 15680}, {64, 18560}, {128, 20160}};
  for (const auto& [interval, samples] : of_diloco) {
    EXPECT_NEAR(cost(Method::kDiloco, 4, interval), samples / 13600, 0.07) << interval;
    EXPECT_EQ(cost(Method::kPalsgd, 4, interval), cost(Method::kDiloco, 4, interval));
  }
  EXPECT_GE(cost(Method::kDiloco, 2, 8), 1) << "outer momentum is not counted on";
}

// What is fast there may be slow back: three clusters have two rings.
TEST(PlannerTest, ThreeClustersGoTheFasterWayRound) {
  Swarm swarm;
  swarm.peers.resize(3);
  const Formation clusters = {{0}, {1}, {2}};
  const std::vector<Cut> cuts(3, Cut{{0, 3}});
  for (std::size_t i = 0; i < 3; ++i)
    swarm.links[{i, (i + 1) % 3}] = swarm.links[{(i + 1) % 3, i}] = {.bandwidth = 1e7};
  swarm.links[{0, 1}].bandwidth = 1e9;  // the best of all, which leads to
  swarm.links[{1, 2}].bandwidth = 1e5;  // the worst
  EXPECT_EQ(ring_order(swarm, clusters, cuts, 3), (std::vector<std::size_t>{0, 2, 1}));
}

TEST(PlannerTest, TheSamePeersGiveTheSamePlan) {
  Random random({7});
  const Job job{.model = layers(9), .samples = 8};
  const Swarm swarm = random_swarm(random, 10);
  const auto one = decide(job, swarm, all_of(4)), other = decide(job, swarm, all_of(4));
  ASSERT_EQ(one.size(), other.size());
  for (std::size_t i = 0; i < one.size(); ++i) {
    EXPECT_EQ(one[i].candidate.clusters, other[i].candidate.clusters);
    EXPECT_EQ(one[i].prediction.step_seconds, other[i].prediction.step_seconds);
  }
}

}  // namespace
}  // namespace rookery::plan
