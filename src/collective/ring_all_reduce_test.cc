#include "collective/ring_all_reduce.h"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "base/random.h"
#include "base/testing/seeds.h"
#include "collective/testing/virtual_ring.h"

namespace rookery::collective {
namespace {

using namespace std::chrono_literals;
using net::Failure;
using testing::VirtualRing;

constexpr net::ChannelId kFirst{.purpose = 2, .generation = 1, .index = 0};
const net::LineOptions kSlow{.bandwidth = 100e6, .latency = 5ms, .jitter = 1ms};

std::vector<std::vector<float>> random_values(std::size_t peers, std::size_t length, std::uint64_t seed) {
  std::vector<std::vector<float>> all(peers, std::vector<float>(length));
  Random random({seed, word_of("values")});
  for (auto& values : all) {
    for (float& v : values) v = static_cast<float>(random.uniform() * 2 - 1);
  }
  return all;
}

class RingAllReduceTest : public ::testing::TestWithParam<std::tuple<std::size_t, std::size_t, Codec>> {};

TEST_P(RingAllReduceTest, LeavesTheSameWeightedSumOnEveryPeer) {
  const auto [peers, length, codec] = GetParam();
  const auto before = random_values(peers, length, peers * 1000 + length);
  auto buffers = before;
  VirtualRing ring(peers, {.line = kSlow});
  const auto weight = [](std::size_t rank) { return 0.25f * static_cast<float>(rank + 1); };

  const auto outcomes = ring.run(
      [&, codec = codec](std::size_t rank) -> Task<> {
        RingAllReduce reduce(ring.world().clock(), ring.ring(rank), kFirst, {.codec = codec, .chunk_bytes = 4096});
        auto running = reduce.run({.values = buffers[rank], .weight = weight(rank)});
        co_await std::move(running);
      },
      Time(10min));

  for (const auto& outcome : outcomes) EXPECT_FALSE(outcome) << outcome->what();
  const double tolerance = codec == Codec::kNone ? 1e-6 : codec == Codec::kBf16 ? 5e-3 : 1.2e-2;
  for (std::size_t i = 0; i < length; ++i) {
    double sum = 0;
    for (std::size_t rank = 0; rank < peers; ++rank) sum += weight(rank) * double{before[rank][i]};
    ASSERT_NEAR(buffers[0][i], sum, tolerance * static_cast<double>(peers * peers)) << i;
  }
  for (const auto& buffer : buffers) EXPECT_EQ(buffer, buffers[0]);
}

// Own pieces are disjoint and make up all values; what is done to them in between reaches everybody.
TEST_P(RingAllReduceTest, HalvesCanBeTakenOneByOne) {
  const auto [peers, length, codec] = GetParam();
  const auto before = random_values(peers, length, peers * 1000 + length + 1);
  auto buffers = before;
  std::vector<std::size_t> owners(length);
  VirtualRing ring(peers, {.line = kSlow});
  const auto outcomes = ring.run(
      [&, codec = codec](std::size_t rank) -> Task<> {
        RingAllReduce reduce(ring.world().clock(), ring.ring(rank), kFirst, {.codec = codec, .chunk_bytes = 4096});
        std::span<float> values = buffers[rank];
        auto reducing = reduce.reduce_scatter({.values = values, .weight = 0.5f});
        co_await std::move(reducing);
        const std::span<float> own = reduce.own_piece(values);
        for (float& value : own) {
          value *= 2;
          ++owners[static_cast<std::size_t>(&value - values.data())];
        }
        auto gathering = reduce.all_gather(values);
        co_await std::move(gathering);
      },
      Time(10min));

  for (const auto& outcome : outcomes) EXPECT_FALSE(outcome) << outcome->what();
  const double tolerance = codec == Codec::kNone ? 1e-6 : codec == Codec::kBf16 ? 1e-2 : 2.4e-2;
  for (std::size_t i = 0; i < length; ++i) {
    double sum = 0;
    for (std::size_t rank = 0; rank < peers; ++rank) sum += double{before[rank][i]};
    ASSERT_NEAR(buffers[0][i], sum, tolerance * static_cast<double>(peers * peers)) << i;
    ASSERT_EQ(owners[i], 1u) << i;
  }
  for (const auto& buffer : buffers) EXPECT_EQ(buffer, buffers[0]);
}

// Lengths below, at and above the number of peers; of less than a chunk, a whole one, and several windows.
INSTANTIATE_TEST_SUITE_P(Sizes, RingAllReduceTest,
                         ::testing::Combine(::testing::Values<std::size_t>(1, 2, 3, 5, 8),
                                            ::testing::Values<std::size_t>(0, 1, 4, 5, 7, 8, 9, 1000, 1024 * 5, 200003),
                                            ::testing::Values(Codec::kNone, Codec::kBf16, Codec::kInt8)));

TEST(RingAllReduceRoundsTest, WhatCodecsLoseComesBackInLaterRounds) {
  constexpr std::size_t kPeers = 3, kLength = 5000, kRounds = 20;
  for (const Codec codec : {Codec::kBf16, Codec::kInt8}) {
    const auto contributions = random_values(kPeers, kLength, 7);
    std::vector<std::vector<float>> lost(kPeers, std::vector<float>(kLength)), results = lost;
    std::vector<double> total(kLength);
    VirtualRing ring(kPeers, {.line = kSlow});
    std::size_t arrived = 0;
    Signal all_arrived;
    ring.run(
        [&](std::size_t rank) -> Task<> {
          RingAllReduce reduce(ring.world().clock(), ring.ring(rank), kFirst, {.codec = codec, .chunk_bytes = 8192});
          for (std::size_t round = 0; round < kRounds; ++round) {
            results[rank] = contributions[rank];
            auto running = reduce.run({.values = results[rank], .lost = lost[rank]});
            co_await std::move(running);
            if (rank == 0) {
              for (std::size_t i = 0; i < kLength; ++i) total[i] += results[0][i];
            }
          }
          ++arrived;
          all_arrived.notify();
          while (arrived < kPeers) co_await all_arrived.wait();
        },
        Time(10min));
    double worst = 0, worst_without = 0;
    for (std::size_t i = 0; i < kLength; ++i) {
      double sum = 0, kept_back = 0;
      for (std::size_t rank = 0; rank < kPeers; ++rank) {
        sum += contributions[rank][i];
        kept_back += lost[rank][i];
      }
      worst = std::max(worst, std::abs(total[i] + kept_back - kRounds * sum));
      worst_without = std::max(worst_without, std::abs(total[i] - kRounds * sum));
    }
    EXPECT_LT(worst, 1e-4) << name_of(codec);         // the sum is conserved, up to rounding
    EXPECT_LT(worst_without, 0.1) << name_of(codec);  // and what is owed does not grow with the rounds
    EXPECT_GT(worst_without, 1e-3) << name_of(codec);
  }
}

constexpr std::uint64_t kSeeds = repetitions(700);

// Faults. Whatever happens, and whenever: every survivor is told in time who failed, or has the right sum.

struct Fault {
  std::string name;
  std::function<void(VirtualRing&)> strike;
  std::vector<std::string> culprits;  // who may be blamed
  std::vector<std::size_t> excused;   // peers whose own outcome does not matter
};

std::vector<Fault> faults() {
  return {
      {"kill", [](VirtualRing& r) { r.kill(2); }, {"p2"}, {2}},
      {"freeze", [](VirtualRing& r) { r.freeze(2); }, {"p2"}, {2}},
      // Neither end of a link that is cut can tell who is to blame.
      {"cut", [](VirtualRing& r) { r.cut(1, 2); }, {"p1", "p2"}, {}},
  };
}

TEST(RingAllReduceFaultTest, EverySurvivorIsToldWhoFailedWheneverItHappens) {
  constexpr std::size_t kPeers = 4, kLength = 60000;
  const net::LineOptions line{.bandwidth = 200e6, .latency = 2ms, .jitter = 1ms};
  for (const Fault& fault : faults()) {
    int failed_runs = 0;
    for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
      const auto before = random_values(kPeers, kLength, seed);
      auto buffers = before;
      VirtualRing ring(kPeers, {.line = line, .seed = seed + 1});
      Alarm strike(ring.world().clock());
      strike.set(Time(30ms * seed / kSeeds), [&] { fault.strike(ring); });  // from the first message to the last

      const auto outcomes = ring.run(
          [&](std::size_t rank) -> Task<> {
            RingAllReduce reduce(ring.world().clock(), ring.ring(rank), kFirst,
                                 {.codec = Codec::kNone, .chunk_bytes = 4096, .stall = 4s});
            auto running = reduce.run({.values = buffers[rank]});
            co_await std::move(running);
            // Whoever is done stays a while, as a peer would.
            co_await ring.world().clock().sleep_for(10s);
          },
          Time(1min));

      for (std::size_t rank = 0; rank < kPeers; ++rank) {
        if (std::ranges::find(fault.excused, rank) != fault.excused.end()) continue;
        SCOPED_TRACE(fault.name + ", seed " + std::to_string(seed) + ", rank " + std::to_string(rank));
        if (outcomes[rank]) {
          ++failed_runs;
          EXPECT_NE(std::ranges::find(fault.culprits, outcomes[rank]->peer()), fault.culprits.end())
              << outcomes[rank]->what();
        } else {
          for (std::size_t i = 0; i < kLength; i += 97) {
            double sum = 0;
            for (const auto& values : before) sum += values[i];
            ASSERT_NEAR(buffers[rank][i], sum, 1e-5);
          }
        }
      }
    }
    EXPECT_GT(failed_runs, kSeeds) << fault.name;  // of three survivors and more
  }
}

TEST(RingAllReduceFaultTest, APeerThatComesLateIsWaitedForWhileItLives) {
  constexpr std::size_t kPeers = 3;
  auto buffers = random_values(kPeers, 1000, 1);
  VirtualRing ring(kPeers, {.line = kSlow});
  const auto outcomes = ring.run(
      [&](std::size_t rank) -> Task<> {
        if (rank == 1) co_await ring.world().clock().sleep_for(5min);
        RingAllReduce reduce(ring.world().clock(), ring.ring(rank), kFirst, {.stall = 2s});
        auto running = reduce.run({.values = buffers[rank]});
        co_await std::move(running);
      },
      Time(1h));
  for (const auto& outcome : outcomes) EXPECT_FALSE(outcome) << outcome->what();
}

TEST(RingAllReduceFaultTest, CancellingOnOnePeerEndsTheRoundOnAll) {
  constexpr std::size_t kPeers = 5;
  auto buffers = random_values(kPeers, 100000, 1);
  VirtualRing ring(kPeers, {.line = kSlow});
  const auto outcomes = ring.run(
      [&](std::size_t rank) -> Task<> {
        RingAllReduce reduce(ring.world().clock(), ring.ring(rank), kFirst, {});
        Alarm alarm(ring.world().clock());
        if (rank == 3) {
          alarm.set(Time(10ms), [&] { reduce.cancel(net::LinkError(Failure::kCancelled, "p3", "has a new plan")); });
        }
        auto running = reduce.run({.values = buffers[rank]});
        co_await std::move(running);
      },
      Time(1min));
  for (const auto& outcome : outcomes) {
    ASSERT_TRUE(outcome);
    EXPECT_STREQ(outcome->what(), "p3: has a new plan");
  }
}

TEST(RingAllReduceTest, ReachesMostOfALongLine) {
  constexpr std::size_t kLength = 4 << 20;
  auto buffers = random_values(2, kLength, 1);
  VirtualRing ring(2, {.line = {.bandwidth = 50e6, .latency = 40ms}});
  const auto outcomes = ring.run(
      [&](std::size_t rank) -> Task<> {
        RingAllReduce reduce(ring.world().clock(), ring.ring(rank), kFirst, {});
        auto running = reduce.run({.values = buffers[rank]});
        co_await std::move(running);
      },
      Time(1min));
  for (const auto& outcome : outcomes) EXPECT_FALSE(outcome) << outcome->what();
  const double seconds = std::chrono::duration<double>(ring.world().clock().now().time_since_epoch()).count();
  const double at_least = 8.0 * 4 * kLength / 50e6;
  EXPECT_GT(seconds, at_least);
  EXPECT_LT(seconds, at_least / 0.9);
}

// The virtual world does the same every time, faults included.
TEST(RingAllReduceTraceTest, TheSameSeedGivesTheSameTraceToTheLastEvent) {
  struct Trace {
    std::uint64_t events, digest;
    Time end;
    std::string failure;

    bool operator==(const Trace&) const = default;
  };
  const auto run = [](std::uint64_t seed) {
    const net::LineOptions line{.bandwidth = 50e6, .latency = 10ms, .jitter = 5ms, .loss = 0.02};
    VirtualRing ring(4, {.line = line, .seed = seed});
    std::vector<std::vector<float>> values(4, std::vector<float>(300000, 1.0f));
    Alarm alarm(ring.world().clock());
    alarm.set(Time(80ms), [&] { ring.cut(1, 2); });
    const auto outcomes = ring.run(
        [&](std::size_t rank) -> Task<> {
          RingAllReduce reduce(ring.world().clock(), ring.ring(rank), kFirst, {});
          auto running = reduce.run({.values = values[rank]});
          co_await std::move(running);
        },
        Time(10min));
    return Trace{ring.world().events(), ring.world().trace(), ring.world().clock().now(),
                 outcomes[0] ? outcomes[0]->what() : "none"};
  };
  const Trace first = run(7);
  EXPECT_GT(first.events, 100u);
  EXPECT_NE(first.failure, "none");
  EXPECT_EQ(run(7), first);
  EXPECT_NE(run(8).digest, first.digest);
}

}  // namespace
}  // namespace rookery::collective
