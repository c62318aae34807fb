#include "collective/group_exchange.h"

#include <algorithm>
#include <numeric>

#include <gtest/gtest.h>

#include "base/random.h"
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

// The other members of a group, as one of them sees them, in the order of members.
struct Group {
  std::vector<net::Link*> others;
  std::size_t place;
};

// Of two or three peers, who are all neighbours in their ring.
Group everybody(const Ring& ring) {
  if (ring.size == 2) return {.others = {ring.next}, .place = ring.rank};
  const bool next_is_first = ring.rank != 1;
  return {.others = next_is_first ? std::vector{ring.next, ring.previous} : std::vector{ring.previous, ring.next},
          .place = ring.rank};
}

class GroupExchangeTest : public ::testing::TestWithParam<std::tuple<std::size_t, std::size_t, Codec>> {};

TEST_P(GroupExchangeTest, AllMixAndTheMeanStays) {
  const auto [peers, length, codec] = GetParam();
  std::vector<std::vector<float>> before, after;
  for (std::size_t rank = 0; rank < peers; ++rank) before.push_back(random_floats(length, rank + 1));
  after = before;
  VirtualRing ring(peers, {.line = kSlow});
  const float weight = 1.0f / static_cast<float>(peers);
  expect_success(ring.run(
      [&, codec = codec, peers = peers](std::size_t rank) -> Task<> {
        const Group group = everybody(ring.ring(rank));
        GroupExchange exchange(ring.world().clock(), group.others, group.place, kFirst,
                               {.codec = codec, .chunk_bytes = 8192});
        auto running = exchange.run(after[rank], std::vector<float>(peers, weight));
        co_await std::move(running);
        co_await ring.world().clock().sleep_for(10s);  // those who are ahead stay for those who are not
      },
      Time(10min)));
  for (std::size_t rank = 1; rank < peers && codec == Codec::kNone; ++rank) EXPECT_EQ(after[rank], after[0]);
  for (std::size_t i = 0; i < length; ++i) {
    double sum_before = 0, sum_after = 0;
    for (std::size_t rank = 0; rank < peers; ++rank) {
      sum_before += static_cast<double>(before[rank][i]);
      sum_after += static_cast<double>(after[rank][i]);
    }
    EXPECT_NEAR(sum_after, sum_before, 1e-6) << i;
    EXPECT_NEAR(after[0][i], sum_before * static_cast<double>(weight), codec == Codec::kNone ? 1e-6 : 1e-2) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, GroupExchangeTest,
                         ::testing::Combine(::testing::Values<std::size_t>(2, 3),
                                            ::testing::Values<std::size_t>(0, 1, 1000, 2048, 100003),
                                            ::testing::Values(Codec::kNone, Codec::kBf16, Codec::kInt8)));

TEST(GroupExchangeTest, UnequalWeightsGiveAllTheSameBits) {
  for (const std::size_t peers : {2, 3}) {
    std::vector<std::vector<float>> values;
    for (std::size_t rank = 0; rank < peers; ++rank) values.push_back(random_floats(5000, rank + 1));
    VirtualRing ring(peers, {.line = kSlow});
    const std::vector<float> weights = peers == 2 ? std::vector{0.7f, 0.3f} : std::vector{0.5f, 0.2f, 0.3f};
    expect_success(ring.run(
        [&](std::size_t rank) -> Task<> {
          const Group group = everybody(ring.ring(rank));
          GroupExchange exchange(ring.world().clock(), group.others, group.place, kFirst, {});
          auto running = exchange.run(values[rank], weights);
          co_await std::move(running);
          co_await ring.world().clock().sleep_for(10s);
        },
        Time(10min)));
    for (std::size_t rank = 1; rank < peers; ++rank) EXPECT_EQ(values[rank], values[0]);
  }
}

// Everybody mixes with its two neighbours, and groups overlap: copies draw closer, and their mean stays.
TEST(GroupExchangeTest, NeighboursInARingComeToAgree) {
  for (const Codec codec : {Codec::kNone, Codec::kBf16}) {
    constexpr std::size_t kPeers = 6, kLength = 3000;
    std::vector<std::vector<float>> values;
    for (std::size_t rank = 0; rank < kPeers; ++rank) values.push_back(random_floats(kLength, rank + 1));
    std::vector<double> mean(kLength);
    for (const auto& own : values) {
      for (std::size_t i = 0; i < kLength; ++i) mean[i] += static_cast<double>(own[i]) / kPeers;
    }
    VirtualRing ring(kPeers, {.line = kSlow});
    expect_success(ring.run(
        [&](std::size_t rank) -> Task<> {
          const Ring place = ring.ring(rank);
          GroupExchange exchange(ring.world().clock(), {place.previous, place.next}, 1, kFirst, {.codec = codec});
          for (int round = 0; round < 60; ++round) {
            auto running = exchange.run(values[rank], {0.25f, 0.5f, 0.25f});
            co_await std::move(running);
          }
          co_await ring.world().clock().sleep_for(10s);
        },
        Time(10min)));
    for (const auto& own : values) {
      for (std::size_t i = 0; i < kLength; ++i) EXPECT_NEAR(own[i], mean[i], codec == Codec::kNone ? 1e-4 : 1e-2);
    }
  }
}

TEST(GroupExchangeTest, AKilledMemberIsNamedByAllOthers) {
  for (const std::size_t peers : {2, 3}) {
    std::vector<std::vector<float>> values(peers, std::vector<float>(500000));
    VirtualRing ring(peers, {.line = kSlow});
    Alarm alarm(ring.world().clock());
    alarm.set(Time(50ms), [&] { ring.kill(1); });
    const auto outcomes = ring.run(
        [&](std::size_t rank) -> Task<> {
          const Group group = everybody(ring.ring(rank));
          GroupExchange exchange(ring.world().clock(), group.others, group.place, kFirst, {});
          auto running = exchange.run(values[rank], std::vector<float>(peers, 0.5f));
          co_await std::move(running);
        },
        Time(10min));
    for (std::size_t rank = 0; rank < peers; ++rank) {
      if (rank == 1) continue;
      ASSERT_TRUE(outcomes[rank]);
      EXPECT_EQ(outcomes[rank]->peer(), "p1");
    }
  }
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
