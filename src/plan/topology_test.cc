#include "plan/topology.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/random.h"

namespace rookery::plan {
namespace {

std::vector<Member> equal_members(std::size_t peers, std::size_t per_host = 1) {
  std::vector<Member> members;
  for (std::size_t i = 0; i < peers; ++i) members.push_back({.weight = 1, .host = i / per_host});
  return members;
}

// One number per peer, mixed as the schedule says, in double.
class Numbers {
 public:
  Numbers(const Topology& topology, const std::vector<Member>& members) : topology_(topology), members_(members) {
    Random random({7, members.size()});
    for (std::size_t i = 0; i < members.size(); ++i) values_.push_back(random.uniform() * 10 - 5);
  }

  void step(double consensus = 1) {
    std::vector<double> mixed(values_.size(), 0.0);
    for (std::size_t i = 0; i < values_.size(); ++i) {
      const Mix mix = topology_.mix(i, steps_, consensus);
      for (std::size_t k = 0; k < mix.members.size(); ++k) mixed[i] += mix.weights[k] * values_[mix.members[k]];
    }
    values_ = mixed;
    ++steps_;
  }

  double mean() const {
    double sum = 0, weights = 0;
    for (std::size_t i = 0; i < values_.size(); ++i) {
      sum += members_[i].weight * values_[i];
      weights += members_[i].weight;
    }
    return sum / weights;
  }

  double distance() const {
    double largest = 0;
    for (const double value : values_) largest = std::max(largest, std::abs(value - mean()));
    return largest;
  }

 private:
  const Topology& topology_;
  const std::vector<Member>& members_;
  std::vector<double> values_;
  std::uint64_t steps_ = 0;
};

struct Case {
  std::string name;
  std::vector<Member> members;
};

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (std::size_t n = 1; n <= 33; ++n) {
    for (const char* name : {"complete", "ring", "finite"}) cases.push_back({name, equal_members(n)});
  }
  for (const std::size_t n : {1, 2, 4, 8, 16, 32}) cases.push_back({"one-peer-exp", equal_members(n)});
  for (const std::size_t hosts : {2, 4, 8}) {
    for (const std::size_t each : {2, 3, 5}) {
      cases.push_back({"alternating-exp-ring", equal_members(hosts * each, each)});
    }
  }
  // Peers that do unequal work.
  const std::size_t count = cases.size();
  for (std::size_t i = 0; i < count; ++i) {
    Case unequal = cases[i];
    for (std::size_t k = 0; k < unequal.members.size(); ++k) {
      unequal.members[k].weight = 1 + static_cast<double>((5 * k + i) % 7) / 4;
    }
    cases.push_back(unequal);
  }
  return cases;
}

TEST(TopologyTest, EverybodyIsInOneGroupAndSeesItAlike) {
  for (const Case& c : all_cases()) {
    const Topology topology(c.name, c.members);
    for (std::size_t step = 0; step < topology.period(); ++step) {
      for (std::size_t i = 0; i < c.members.size(); ++i) {
        const Mix mix = topology.mix(i, step);
        EXPECT_TRUE(std::ranges::is_sorted(mix.members));
        EXPECT_NE(std::ranges::find(mix.members, i), mix.members.end());
        EXPECT_NEAR(std::accumulate(mix.weights.begin(), mix.weights.end(), 0.0), 1, 1e-6);
        for (const std::size_t other : mix.members) EXPECT_EQ(topology.mix(other, step).members, mix.members);
      }
    }
  }
}

// The mean over peers is conserved by every mix, with any consensus factor.
TEST(TopologyTest, EveryMixConservesTheMean) {
  for (const Case& c : all_cases()) {
    for (const double consensus : {1.0, 0.5}) {
      const Topology topology(c.name, c.members);
      Numbers numbers(topology, c.members);
      const double mean = numbers.mean();
      for (std::size_t step = 0; step < 2 * topology.period(); ++step) {
        numbers.step(consensus);
        EXPECT_NEAR(numbers.mean(), mean, 1e-5) << c.name << " of " << c.members.size();
      }
    }
  }
}

// With η = 0 and equal weights: exact consensus after one period, for every topology but the ring.
TEST(TopologyTest, OnePeriodIsConsensus) {
  for (const Case& c : all_cases()) {
    const bool equal = std::ranges::all_of(c.members, [](const Member& m) { return m.weight == 1; });
    if (c.name == "ring" || (!equal && c.name != "complete")) continue;
    const Topology topology(c.name, c.members);
    Numbers numbers(topology, c.members);
    for (std::size_t step = 0; step < topology.period(); ++step) numbers.step();
    EXPECT_LT(numbers.distance(), 1e-5) << c.name << " of " << c.members.size();
  }
}

// In any case, consensus in the end.
TEST(TopologyTest, AllTopologiesEndInConsensus) {
  for (const Case& c : all_cases()) {
    const Topology topology(c.name, c.members);
    Numbers numbers(topology, c.members);
    const std::size_t n = c.members.size(), steps = c.name == "ring" ? 3 * n * n + 10 : 12 * topology.period();
    for (std::size_t step = 0; step < steps; ++step) numbers.step();
    EXPECT_LT(numbers.distance(), 1e-2) << c.name << " of " << n;
  }
}

// Each turn is consensus, and nobody has one other alone on whom it depends.
TEST(TopologyTest, WithRotationsEverybodyMeetsSeveral) {
  for (const std::size_t peers : {3, 5, 6, 8, 9}) {
    const std::string name = peers == 8 ? "one-peer-exp" : "finite";
    const std::vector<Member> members(peers);
    const Topology once(name, members), often(name, members, peers);
    ASSERT_EQ(often.period(), peers * once.period());
    Numbers numbers(often, members);
    for (std::size_t step = 0; step < once.period(); ++step) numbers.step();
    EXPECT_LT(numbers.distance(), 1e-5) << name << " of " << peers;
    for (std::size_t i = 0; i < peers; ++i) {
      std::set<std::size_t> others;
      for (std::size_t step = 0; step < often.period(); ++step) {
        const Mix mix = often.mix(i, step);
        for (const std::size_t other : mix.members) {
          EXPECT_EQ(often.mix(other, step).members, mix.members);
          others.insert(other);
        }
      }
      EXPECT_GT(others.size(), 2u) << "peer " << i << " of " << peers;  // itself among them
    }
  }
}

// A ring of n contracts in one period of two steps by its second eigenvalue, cos²(π/m) with m = n/2 pairs.
TEST(TopologyTest, ARingContractsByItsSecondEigenvalue) {
  for (const std::size_t n : {4, 6, 8, 16}) {
    const auto members = equal_members(n);
    const Topology topology("ring", members);
    EXPECT_EQ(topology.period(), 2u);
    Numbers numbers(topology, members);
    for (int step = 0; step < 40 * static_cast<int>(n); ++step) numbers.step();
    const double eigenvalue = std::pow(std::cos(std::numbers::pi / static_cast<double>(n / 2)), 2);
    const double before = numbers.distance();
    for (int period = 0; period < 5; ++period) {
      numbers.step();
      numbers.step();
    }
    if (before < 1e-12) continue;  // consensus to the last bit
    EXPECT_NEAR(std::pow(numbers.distance() / before, 0.2), eigenvalue, 0.02) << n;
  }
}

TEST(TopologyTest, APowerOfTwoNeedsItsLogarithm) {
  EXPECT_EQ(Topology("one-peer-exp", equal_members(16)).period(), 4u);
  EXPECT_EQ(Topology("finite", equal_members(16)).period(), 4u);
  EXPECT_EQ(Topology("finite", equal_members(5)).period(), 5u);
  EXPECT_EQ(Topology("finite", equal_members(1)).period(), 1u);
  for (std::size_t n = 2; n <= 200; ++n) {
    const auto phases = static_cast<double>(Topology("finite", equal_members(n)).period());
    EXPECT_LE(phases, 2 * std::floor(std::log2(static_cast<double>(n))) + 1) << n;
  }
}

// The published example: 4 hosts of 2.
TEST(TopologyTest, AlternatingExpRingOfFourHostsOfTwo) {
  const Topology topology("alternating-exp-ring", equal_members(8, 2));
  const auto group = [&](std::size_t step, std::size_t rank) { return topology.mix(rank, step).members; };
  using Ranks = std::vector<std::size_t>;
  EXPECT_EQ(topology.period(), 4u);
  EXPECT_EQ(group(0, 0), (Ranks{0, 1}));
  EXPECT_EQ(group(0, 2), (Ranks{2, 3}));
  EXPECT_EQ(group(0, 4), (Ranks{4, 5, 6, 7}));
  EXPECT_EQ(group(1, 0), (Ranks{0, 1, 2, 3}));
  EXPECT_EQ(group(1, 4), (Ranks{4, 5}));
  EXPECT_EQ(group(1, 6), (Ranks{6, 7}));
  EXPECT_EQ(group(2, 0), (Ranks{0, 1}));
  EXPECT_EQ(group(2, 4), (Ranks{4, 5}));
  EXPECT_EQ(group(2, 2), (Ranks{2, 3, 6, 7}));
  EXPECT_EQ(group(3, 0), (Ranks{0, 1, 4, 5}));
  EXPECT_EQ(group(3, 2), (Ranks{2, 3}));
  EXPECT_EQ(group(3, 6), (Ranks{6, 7}));
}

TEST(TopologyTest, OfAnOddRingOneSitsOutInTurn) {
  const Topology topology("ring", equal_members(5));
  EXPECT_EQ(topology.period(), 5u);
  for (std::size_t step = 0; step < 5; ++step) {
    std::size_t alone = 0;
    for (std::size_t i = 0; i < 5; ++i) alone += topology.mix(i, step).members.size() == 1 ? 1 : 0;
    EXPECT_EQ(alone, 1u);
    EXPECT_EQ(topology.mix(step, step).members.size(), 1u);
  }
}

TEST(TopologyTest, WhatANumberOfPeersCannotHaveIsRefused) {
  EXPECT_THROW(Topology("one-peer-exp", equal_members(6)), InputError);
  EXPECT_THROW(Topology("alternating-exp-ring", equal_members(6, 2)), InputError);  // three hosts
  EXPECT_THROW(Topology("alternating-exp-ring", equal_members(4, 1)), InputError);
  EXPECT_THROW(Topology("alternating-exp-ring", equal_members(7, 2)), InputError);
  EXPECT_THROW(Topology("star", equal_members(4)), InputError);
}

}  // namespace
}  // namespace rookery::plan
