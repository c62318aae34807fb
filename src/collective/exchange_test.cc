#include <algorithm>
#include <numeric>

#include <gtest/gtest.h>

#include "base/random.h"
#include "collective/pair_exchange.h"
#include "collective/ring_broadcast.h"
#include "collective/testing/virtual_ring.h"

namespace rookery::collective {
namespace {

using namespace std::chrono_literals;
using testing::VirtualRing;

constexpr net::ChannelId kFirst{.purpose = 2, .generation = 1, .index = 0};
const net::LineOptions kSlow{.bandwidth = 100e6, .latency = 5ms, .jitter = 1ms};

std::vector<float> random_floats(std::size_t size, std::uint64_t seed) {
  Random random({seed});
  std::vector<float> values(size);
  for (float& v : values) v = static_cast<float>(random.uniform() * 2 - 1);
  return values;
}

void expect_success(const std::vector<VirtualRing::Outcome>& outcomes) {
  for (const auto& outcome : outcomes) EXPECT_FALSE(outcome) << outcome->what();
}

class PairExchangeTest : public ::testing::TestWithParam<std::tuple<std::size_t, Codec>> {};

TEST_P(PairExchangeTest, BothMixAndTheMeanStays) {
  const auto [length, codec] = GetParam();
  const std::vector<float> before[2] = {random_floats(length, 1), random_floats(length, 2)};
  std::vector<float> after[2] = {before[0], before[1]};
  VirtualRing ring(2, {.line = kSlow});
  expect_success(ring.run(
      [&, codec = codec](std::size_t rank) -> Task<> {
        PairExchange pair(ring.world().clock(), *ring.ring(rank).next, kFirst, {.codec = codec, .chunk_bytes = 8192});
        auto running = pair.run(after[rank], {.own = 0.5f, .other = 0.5f});
        co_await std::move(running);
      },
      Time(10min)));
  if (codec == Codec::kNone) {
    EXPECT_EQ(after[0], after[1]);
  }
  for (std::size_t i = 0; i < length; ++i) {
    EXPECT_NEAR(after[0][i] + after[1][i], before[0][i] + before[1][i], 1e-6) << i;
    EXPECT_NEAR(after[0][i], (before[0][i] + before[1][i]) / 2, codec == Codec::kNone ? 1e-6 : 1e-2) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, PairExchangeTest,
                         ::testing::Combine(::testing::Values<std::size_t>(0, 1, 1000, 2048, 100003),
                                            ::testing::Values(Codec::kNone, Codec::kBf16, Codec::kInt8)));

TEST(PairExchangeTest, UnequalWeightsGiveBothTheSameBits) {
  std::vector<float> values[2] = {random_floats(5000, 1), random_floats(5000, 2)};
  VirtualRing ring(2, {.line = kSlow});
  expect_success(ring.run(
      [&](std::size_t rank) -> Task<> {
        PairExchange pair(ring.world().clock(), *ring.ring(rank).next, kFirst, {});
        const auto weights = rank == 0 ? PairExchange::Weights{0.7f, 0.3f} : PairExchange::Weights{0.3f, 0.7f};
        auto running = pair.run(values[rank], weights);
        co_await std::move(running);
      },
      Time(10min)));
  EXPECT_EQ(values[0], values[1]);
}

TEST(PairExchangeTest, AKilledPeerIsNoticed) {
  std::vector<float> values[2] = {random_floats(500000, 1), random_floats(500000, 2)};
  VirtualRing ring(2, {.line = kSlow});
  Alarm alarm(ring.world().clock());
  alarm.set(Time(50ms), [&] { ring.kill(1); });
  const auto outcomes = ring.run(
      [&](std::size_t rank) -> Task<> {
        PairExchange pair(ring.world().clock(), *ring.ring(rank).next, kFirst, {});
        auto running = pair.run(values[rank], {});
        co_await std::move(running);
      },
      Time(10min));
  ASSERT_TRUE(outcomes[0]);
  EXPECT_EQ(outcomes[0]->peer(), "p1");
}

class RingBroadcastTest : public ::testing::TestWithParam<std::tuple<std::size_t, std::size_t>> {};

TEST_P(RingBroadcastTest, EveryPeerGetsTheRootsBytesRoundAfterRound) {
  const auto [peers, length] = GetParam();
  std::vector<std::vector<std::byte>> buffers(peers, std::vector<std::byte>(length));
  VirtualRing ring(peers, {.line = kSlow});
  expect_success(ring.run(
      [&, peers = peers](std::size_t rank) -> Task<> {
        RingBroadcast broadcast(ring.world().clock(), ring.ring(rank), kFirst, {.chunk_bytes = 1000});
        for (std::size_t root = 0; root < peers; ++root) {
          if (rank == root) std::ranges::fill(buffers[rank], static_cast<std::byte>(root + 1));
          auto running = broadcast.run(buffers[rank], root);
          co_await std::move(running);
          EXPECT_TRUE(
              std::ranges::all_of(buffers[rank], [&](std::byte b) { return b == static_cast<std::byte>(root + 1); }));
        }
        // Those who are ahead stay for those who are not.
        co_await ring.world().clock().sleep_for(10s);
      },
      Time(10min)));
}

TEST_P(RingBroadcastTest, AllGatherPutsEveryBlockInItsPlace) {
  const auto [peers, length] = GetParam();
  VirtualRing ring(peers, {.line = kSlow});
  expect_success(ring.run(
      [&, peers = peers, length = length](std::size_t rank) -> Task<> {
        RingAllGather gather(ring.world().clock(), ring.ring(rank), kFirst, {.chunk_bytes = 1000});
        std::vector<std::byte> all(peers * length);
        std::ranges::fill(std::span(all).subspan(rank * length, length), static_cast<std::byte>(rank + 1));
        auto running = gather.run(all);
        co_await std::move(running);
        for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i], static_cast<std::byte>(i / length + 1));
        co_await ring.world().clock().sleep_for(10s);
      },
      Time(10min)));
}

INSTANTIATE_TEST_SUITE_P(Sizes, RingBroadcastTest,
                         ::testing::Combine(::testing::Values<std::size_t>(1, 2, 3, 5),
                                            ::testing::Values<std::size_t>(0, 1, 1000, 70001)));

TEST(RingAllGatherTest, NobodyLeavesABarrierBeforeAllHaveCome) {
  constexpr std::size_t kPeers = 5;
  std::size_t arrived = 0;
  VirtualRing ring(kPeers, {.line = kSlow});
  expect_success(ring.run(
      [&](std::size_t rank) -> Task<> {
        RingAllGather gather(ring.world().clock(), ring.ring(rank), kFirst, {});
        for (std::size_t round = 1; round <= 3; ++round) {
          co_await ring.world().clock().sleep_for(rank * 10ms);
          ++arrived;
          co_await gather.barrier();
          EXPECT_GE(arrived, round * kPeers);
        }
        co_await ring.world().clock().sleep_for(1s);
      },
      Time(10min)));
}

TEST(RingAllGatherTest, AFrozenPeerIsNamedByAllOthers) {
  constexpr std::size_t kPeers = 5;
  VirtualRing ring(kPeers, {.line = kSlow});
  Alarm alarm(ring.world().clock());
  alarm.set(Time(20ms), [&] { ring.freeze(3); });
  const auto outcomes = ring.run(
      [&](std::size_t rank) -> Task<> {
        RingAllGather gather(ring.world().clock(), ring.ring(rank), kFirst, {});
        std::vector<std::byte> all(kPeers * 1000000);
        auto running = gather.run(all);
        co_await std::move(running);
      },
      Time(10min));
  for (const std::size_t rank : {0, 1, 2, 4}) {
    ASSERT_TRUE(outcomes[rank]);
    EXPECT_EQ(outcomes[rank]->peer(), "p3") << rank;
  }
}

}  // namespace
}  // namespace rookery::collective
