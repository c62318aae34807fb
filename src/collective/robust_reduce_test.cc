#include "collective/robust_reduce.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "base/random.h"
#include "base/testing/seeds.h"
#include "collective/testing/virtual_mesh.h"

namespace rookery::collective {
namespace {

using namespace std::chrono_literals;
using testing::Outcome;
using testing::VirtualMesh;
using Kind = Finding::Kind;

constexpr net::ChannelId kFirst{.purpose = 3, .generation = 1, .index = 4};
const net::LineOptions kSlow{.bandwidth = 100e6, .latency = 5ms, .jitter = 1ms};

using Values = std::vector<std::vector<float>>;  // of all members

// What honest members bring: something that they have in common, and noise of their own.
Values honest_values(std::size_t members, std::size_t length, std::uint64_t seed) {
  Random random({seed, word_of("values")});
  std::vector<float> common(length);
  for (float& value : common) value = static_cast<float>(random.uniform() * 2 - 1);
  Values all(members, common);
  for (auto& values : all) {
    for (float& value : values) value += static_cast<float>(random.uniform() * 2 - 1);
  }
  return all;
}

float weight_of(std::size_t rank) { return 0.25f * static_cast<float>(rank + 1); }

struct Result {
  Values values;
  std::vector<std::vector<Finding>> findings;  // by each member
  std::vector<Outcome> outcomes;
};

Result reduce(VirtualMesh& mesh, Values values, RobustReduceOptions options, bool weighted = false) {
  const std::size_t members = values.size();
  Result result{.values = std::move(values), .findings = std::vector<std::vector<Finding>>(members), .outcomes = {}};
  result.outcomes = mesh.run(
      [&](std::size_t rank) -> Task<> {
        Circle circle{.rank = rank, .links = mesh.links(rank)};
        for (std::size_t i = 0; i < members; ++i) circle.weights.push_back(weighted ? weight_of(i) : 1.0f);
        RobustReduce reducing(mesh.world().clock(), circle, kFirst, options);
        auto running = reducing.run(result.values[rank]);
        result.findings[rank] = co_await std::move(running);
        // Whoever is done stays a while, as a peer would.
        co_await mesh.world().clock().sleep_for(30s);
      },
      Time(10min));
  return result;
}

Result reduce(Values values, RobustReduceOptions options, bool weighted = false) {
  VirtualMesh mesh(values.size(), kSlow);
  return reduce(mesh, std::move(values), options, weighted);
}

void expect_equal_everywhere(const Result& result) {
  for (const Outcome& outcome : result.outcomes) EXPECT_FALSE(outcome) << outcome->what();
  for (const auto& values : result.values) EXPECT_EQ(values, result.values[0]);
}

// One value of the trimmed mean, the long way.
double trimmed(const Values& all, std::size_t i) {
  std::vector<std::pair<double, double>> sorted;
  for (std::size_t rank = 0; rank < all.size(); ++rank) sorted.emplace_back(all[rank][i], weight_of(rank));
  std::sort(sorted.begin(), sorted.end());
  std::size_t out = all.size() / 4;
  if (out == 0 && all.size() > 2) out = 1;
  double sum = 0, weights = 0;
  for (std::size_t k = out; k + out < sorted.size(); ++k) {
    sum += sorted[k].first * sorted[k].second;
    weights += sorted[k].second;
  }
  return sum / weights;
}

// The clipped mean of all values, whose chunks have `chunk` values, the long way.
std::vector<double> clipped(const Values& all, std::size_t chunk) {
  const std::size_t members = all.size(), length = all[0].size();
  std::vector<double> result(length);
  for (std::size_t piece = 0; piece < members; ++piece) {
    const std::size_t end = length * (piece + 1) / members;
    for (std::size_t from = length * piece / members; from < end; from += chunk) {
      const std::size_t to = std::min(from + chunk, end);
      std::vector<double> norms;
      for (const auto& values : all) {
        double squares = 0;
        for (std::size_t i = from; i < to; ++i) squares += double{values[i]} * double{values[i]};
        norms.push_back(std::sqrt(squares));
      }
      std::vector<double> sorted = norms;
      std::sort(sorted.begin(), sorted.end());
      const double most = 2 * sorted[(members - 1) / 2];
      double weights = 0;
      for (std::size_t rank = 0; rank < members; ++rank) weights += weight_of(rank);
      for (std::size_t rank = 0; rank < members; ++rank) {
        const double factor = weight_of(rank) / weights * std::min(1.0, most / norms[rank]);
        for (std::size_t i = from; i < to; ++i) result[i] += factor * double{all[rank][i]};
      }
    }
  }
  return result;
}

class RobustReduceTest : public ::testing::TestWithParam<std::tuple<std::size_t, std::size_t>> {};

TEST_P(RobustReduceTest, TheTrimmedMeanIsWhatASerialLoopGives) {
  const auto [members, length] = GetParam();
  const Values before = honest_values(members, length, members * 1000 + length);
  const Result result = reduce(before, {.rule = Robust::kTrimmedMean, .chunk_bytes = 1024}, true);
  expect_equal_everywhere(result);
  for (std::size_t i = 0; i < length; ++i) ASSERT_NEAR(result.values[0][i], trimmed(before, i), 1e-6) << i;
}

TEST_P(RobustReduceTest, TheClippedMeanIsWhatASerialLoopGives) {
  const auto [members, length] = GetParam();
  Values before = honest_values(members, length, members * 1000 + length);
  for (float& value : before.back()) value *= 3;
  const Result result = reduce(before, {.rule = Robust::kClip, .chunk_bytes = 1024}, true);
  expect_equal_everywhere(result);
  const std::vector<double> expected = clipped(before, 256);
  for (std::size_t i = 0; i < length; ++i) ASSERT_NEAR(result.values[0][i], expected[i], 1e-5) << i;
}

TEST_P(RobustReduceTest, NobodyHonestIsFoundOut) {
  const auto [members, length] = GetParam();
  const Result result = reduce(honest_values(members, length, 5), {.chunk_bytes = 1024});
  for (const auto& findings : result.findings) EXPECT_TRUE(findings.empty()) << findings[0].text();
}

// Lengths below, at and above the number of members; of less than a chunk, a whole one, and several windows.
INSTANTIATE_TEST_SUITE_P(Sizes, RobustReduceTest,
                         ::testing::Combine(::testing::Values<std::size_t>(1, 2, 3, 4, 5, 8),
                                            ::testing::Values<std::size_t>(0, 1, 4, 5, 7, 9, 1000, 1024 * 5, 50003)));

TEST(RobustReduceRoundsTest, RoundsFollowEachOther) {
  constexpr std::size_t kMembers = 3, kLength = 3000, kRounds = 5;
  const Values before = honest_values(kMembers, kLength, 7);
  Values values = before;
  VirtualMesh mesh(kMembers, kSlow);
  const auto outcomes = mesh.run(
      [&](std::size_t rank) -> Task<> {
        RobustReduce reducing(mesh.world().clock(), {.rank = rank, .links = mesh.links(rank), .weights = {1, 1, 1}},
                              kFirst, {.chunk_bytes = 256});
        for (std::size_t round = 0; round < kRounds; ++round) {
          values[rank] = before[rank];
          auto running = reducing.run(values[rank]);
          co_await std::move(running);
        }
        co_await mesh.world().clock().sleep_for(1s);
      },
      Time(10min));
  for (const auto& outcome : outcomes) EXPECT_FALSE(outcome) << outcome->what();
  EXPECT_EQ(values[0], values[1]);
  EXPECT_EQ(values[0], values[2]);
  EXPECT_EQ(values, reduce(before, {.chunk_bytes = 256}).values);
}

// Those who lie: the last member does.

struct Lie {
  std::string name;
  std::function<float(float)> tell;
  Kind kind;
};

std::vector<Lie> lies() {
  return {{"nan", [](float) { return std::numeric_limits<float>::quiet_NaN(); }, Kind::kNotFinite},
          {"infinite", [](float) { return -std::numeric_limits<float>::infinity(); }, Kind::kNotFinite},
          {"scale", [](float v) { return 100 * v; }, Kind::kTooLarge},
          {"flip", [](float v) { return -v; }, Kind::kOpposed}};
}

TEST(RobustReduceLieTest, LiarsDoNotMoveTheTrimmedMeanBeyondTheOthersAndAreNamed) {
  constexpr std::size_t kLength = 20000;
  for (const Lie& lie : lies()) {
    for (const std::size_t members : {3, 4, 5, 8}) {
      SCOPED_TRACE(lie.name + ", " + std::to_string(members) + " members");
      Values values = honest_values(members, kLength, 3);
      for (float& value : values.back()) value = lie.tell(value);
      const Result result = reduce(values, {.rule = Robust::kTrimmedMean});
      expect_equal_everywhere(result);
      for (std::size_t i = 0; i < kLength; ++i) {
        float low = values[0][i], high = low;
        for (std::size_t rank = 1; rank + 1 < members; ++rank) {
          low = std::min(low, values[rank][i]);
          high = std::max(high, values[rank][i]);
        }
        ASSERT_GE(result.values[0][i], low) << i;
        ASSERT_LE(result.values[0][i], high) << i;
      }
      for (std::size_t rank = 0; rank + 1 < members; ++rank) {
        ASSERT_EQ(result.findings[rank].size(), 1u) << rank;
        EXPECT_EQ(result.findings[rank][0].member, members - 1);
        EXPECT_EQ(result.findings[rank][0].kind, lie.kind) << result.findings[rank][0].text();
      }
    }
  }
}

TEST(RobustReduceLieTest, WhatIsClippedWeighsNoMoreThanTwoOthers) {
  constexpr std::size_t kLength = 20000, kMembers = 4;
  const auto norm_of = [](const std::vector<float>& values) {
    double squares = 0;
    for (const float value : values) squares += double{value} * double{value};
    return std::sqrt(squares);
  };
  for (const Lie& lie : lies()) {
    SCOPED_TRACE(lie.name);
    Values values = honest_values(kMembers, kLength, 3);
    std::vector<float> others(kLength);
    for (std::size_t rank = 0; rank + 1 < kMembers; ++rank) {
      for (std::size_t i = 0; i < kLength; ++i) others[i] += values[rank][i] / 3;
    }
    const double usual = norm_of(values[0]);
    for (float& value : values.back()) value = lie.tell(value);
    const Result result = reduce(values, {.rule = Robust::kClip});
    expect_equal_everywhere(result);
    std::vector<float> moved = result.values[0];
    for (std::size_t i = 0; i < kLength; ++i) moved[i] -= others[i];
    // (Σ honest + c) / 4 is at most (|mean of the others| + |c|) / 4 away from that mean.
    EXPECT_LT(norm_of(moved), 1.05 * (norm_of(others) + 2 * usual) / kMembers);
    for (std::size_t rank = 0; rank + 1 < kMembers; ++rank) {
      ASSERT_EQ(result.findings[rank].size(), 1u) << rank;
      EXPECT_EQ(result.findings[rank][0].member, kMembers - 1);
      EXPECT_EQ(result.findings[rank][0].kind, lie.kind);
    }
  }
}

TEST(RobustReduceLieTest, OneValueThatIsNoneIsEnoughToBeNamedByItsOwner) {
  Values values = honest_values(4, 20000, 3);
  values[2][7] = std::numeric_limits<float>::quiet_NaN();  // in the first member's piece
  const Result result = reduce(values, {});
  expect_equal_everywhere(result);
  EXPECT_TRUE(std::ranges::all_of(result.values[0], [](float value) { return std::isfinite(value); }));
  EXPECT_EQ(result.findings[0], (std::vector<Finding>{{.member = 2, .kind = Kind::kNotFinite}}));
  for (const std::size_t rank : {1, 2, 3}) EXPECT_TRUE(result.findings[rank].empty());
}

// Near an optimum what honest members bring adds up to little, and each goes against the others.
TEST(RobustReduceLieTest, WhereNobodyAgreesNobodyIsOpposed) {
  Values values = honest_values(4, 20000, 3);
  for (std::size_t i = 0; i < values[0].size(); ++i) {
    const float middle = (values[0][i] + values[1][i] + values[2][i] + values[3][i]) / 4;
    for (auto& own : values) own[i] -= middle;
  }
  const Result result = reduce(values, {});
  for (const auto& findings : result.findings) EXPECT_TRUE(findings.empty()) << findings[0].text();
}

// With two, nobody can tell who is right.
TEST(RobustReduceLieTest, OfTwoOnlyWhatIsNoNumberIsFound) {
  Values values = honest_values(2, 2000, 3);
  for (float& value : values[1]) value *= -100;
  const Result result = reduce(values, {});
  EXPECT_TRUE(result.findings[0].empty());
  EXPECT_TRUE(result.findings[1].empty());
  std::ranges::fill(values[1], std::numeric_limits<float>::infinity());
  const Result not_finite = reduce(values, {});
  EXPECT_EQ(not_finite.findings[0], (std::vector<Finding>{{.member = 1, .kind = Kind::kNotFinite}}));
  EXPECT_EQ(not_finite.values[1], values[0]);
}

// Faults. Whatever happens, and whenever: every survivor is told in time who failed, or has the right mean.

constexpr std::uint64_t kSeeds = repetitions(100);

TEST(RobustReduceFaultTest, EverySurvivorIsToldWhoFailedWheneverItHappens) {
  constexpr std::size_t kMembers = 4, kLength = 60000, kVictim = 2;
  const net::LineOptions line{.bandwidth = 200e6, .latency = 2ms, .jitter = 1ms};
  for (const bool freezes : {false, true}) {
    std::uint64_t failed = 0;
    for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
      SCOPED_TRACE(std::string(freezes ? "freeze" : "kill") + ", seed " + std::to_string(seed));
      const Values before = honest_values(kMembers, kLength, seed);
      VirtualMesh mesh(kMembers, line, seed + 1);
      Alarm strike(mesh.world().clock());
      strike.set(Time(12ms * seed / kSeeds), [&] { freezes ? mesh.freeze(kVictim) : mesh.kill(kVictim); });
      const Result result = reduce(mesh, before, {.chunk_bytes = 4096, .stall = 4s});
      for (std::size_t rank = 0; rank < kMembers; ++rank) {
        if (rank == kVictim) continue;
        if (result.outcomes[rank]) {
          ++failed;
          EXPECT_EQ(result.outcomes[rank]->peer(), "p2") << rank << ": " << result.outcomes[rank]->what();
          continue;
        }
        for (std::size_t i = 0; i < kLength; i += 97) {
          std::vector<float> sorted;
          for (const auto& values : before) sorted.push_back(values[i]);
          std::ranges::sort(sorted);
          ASSERT_NEAR(result.values[rank][i], (sorted[1] + sorted[2]) / 2, 1e-5);
        }
      }
    }
    EXPECT_GT(failed, kSeeds);
  }
}

TEST(RobustReduceFaultTest, AMemberThatComesLateIsWaitedForWhileItLives) {
  VirtualMesh mesh(3, kSlow);
  Values values = honest_values(3, 1000, 1);
  const auto outcomes = mesh.run(
      [&](std::size_t rank) -> Task<> {
        if (rank == 1) co_await mesh.world().clock().sleep_for(5min);
        RobustReduce reducing(mesh.world().clock(), {.rank = rank, .links = mesh.links(rank), .weights = {1, 1, 1}},
                              kFirst, {.stall = 2s});
        auto running = reducing.run(values[rank]);
        co_await std::move(running);
        co_await mesh.world().clock().sleep_for(1s);
      },
      Time(1h));
  for (const auto& outcome : outcomes) EXPECT_FALSE(outcome) << outcome->what();
}

TEST(RobustReduceFaultTest, CancellingOnOneMemberEndsTheRoundOnAll) {
  VirtualMesh mesh(5, kSlow);
  Values values = honest_values(5, 100000, 1);
  const auto outcomes = mesh.run(
      [&](std::size_t rank) -> Task<> {
        RobustReduce reducing(mesh.world().clock(),
                              {.rank = rank, .links = mesh.links(rank), .weights = {1, 1, 1, 1, 1}}, kFirst, {});
        Alarm alarm(mesh.world().clock());
        if (rank == 3) {
          alarm.set(Time(10ms),
                    [&] { reducing.cancel(net::LinkError(net::Failure::kCancelled, "p3", "has a new plan")); });
        }
        auto running = reducing.run(values[rank]);
        co_await std::move(running);
      },
      Time(1min));
  for (const auto& outcome : outcomes) {
    ASSERT_TRUE(outcome);
    EXPECT_STREQ(outcome->what(), "p3: has a new plan");
  }
}

}  // namespace
}  // namespace rookery::collective
