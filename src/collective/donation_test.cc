#include "collective/donation.h"

#include <numeric>

#include <gtest/gtest.h>

#include "collective/testing/virtual_mesh.h"

namespace rookery::collective {
namespace {

using namespace std::chrono_literals;
using testing::VirtualMesh;

constexpr net::ChannelId kChannel{.purpose = 0x0500, .generation = 3, .index = 7};
constexpr DonationOptions kOptions{.chunk_bytes = 4096};

std::vector<float> some_values(std::size_t count, float first = 1) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), first);
  return values;
}

Donation offered(std::vector<float> values) {
  return make_donation(std::make_shared<const std::vector<float>>(std::move(values)), kOptions);
}

// Peer 0 takes from those of the others whom it is told to.
struct DonationTest : ::testing::Test {
  Task<> give(VirtualMesh& mesh, std::size_t rank, std::vector<float> values) {
    auto giving = donate(mesh.world().clock(), *mesh.links(rank)[0], kChannel,
                         std::make_shared<const Donation>(offered(std::move(values))), kOptions);
    co_await std::move(giving);
  }

  // It is lost before it has given all.
  Task<> give_until_lost(VirtualMesh& mesh, std::size_t rank, Duration after) {
    const auto die = [&]() -> Task<> {
      auto living = stay(mesh, after);
      co_await std::move(living);
      mesh.kill(rank);
    };
    TaskGroup group(mesh.world().executor());
    group.spawn(die());
    try {
      auto giving = give(mesh, rank, values_);
      co_await std::move(giving);
      ADD_FAILURE();
    } catch (const net::LinkError&) {
      // As it should be.
    }
    auto joined = group.join();
    co_await std::move(joined);
  }

  Task<Collected> take(VirtualMesh& mesh, std::vector<std::size_t> donors, std::span<float> values) {
    std::vector<net::Link*> links;
    for (const std::size_t donor : donors) links.push_back(mesh.links(0)[donor]);
    auto collecting = collect(mesh.world().clock(), links, kChannel, values, kOptions);
    co_return co_await std::move(collecting);
  }

  Task<> stay(VirtualMesh& mesh, Duration how_long) {
    auto sleeping = mesh.world().clock().sleep_for(how_long);
    co_await std::move(sleeping);
  }

  const std::vector<float> values_ = some_values(100'001);  // 98 chunks
};

TEST_F(DonationTest, SeveralDonorsAreFasterThanOne) {
  std::map<std::size_t, Duration> took;
  for (const std::size_t donors : {1, 3}) {
    VirtualMesh mesh(4, {.bandwidth = 8e6, .latency = 2ms});
    std::vector<float> taken(values_.size());
    Collected collected;
    const auto task = [&](std::size_t rank) -> Task<> {
      if (rank > 0) {
        auto part = rank > donors ? stay(mesh, 1s) : give(mesh, rank, values_);
        co_return co_await std::move(part);
      }
      std::vector<std::size_t> from(donors);
      std::iota(from.begin(), from.end(), 1u);
      auto taking = take(mesh, from, taken);
      collected = co_await std::move(taking);
      took[donors] = mesh.world().clock().now().time_since_epoch();
    };
    for (const auto& outcome : mesh.run(task, Time(1h))) EXPECT_FALSE(outcome) << outcome->what();
    EXPECT_EQ(taken, values_);
    EXPECT_EQ(collected.chunks, 98u);
    EXPECT_EQ(collected.had, 0u);
    for (const std::size_t given : collected.by) EXPECT_GT(given, 20u);
  }
  EXPECT_LT(took[3], took[1] / 2);
}

TEST_F(DonationTest, WhatADonorThatIsLostHasNotGivenComesFromTheOthers) {
  VirtualMesh mesh(4, {.bandwidth = 8e6, .latency = 2ms});
  std::vector<float> taken(values_.size());
  Collected collected;
  const auto task = [&](std::size_t rank) -> Task<> {
    if (rank == 3) {  // never says a word
      auto staying = stay(mesh, 1min);
      co_return co_await std::move(staying);
    }
    if (rank == 2) {
      auto giving = give_until_lost(mesh, rank, 50ms + kOptions.stall / 5);
      co_return co_await std::move(giving);
    }
    if (rank == 1) {
      auto giving = give(mesh, rank, values_);
      co_return co_await std::move(giving);
    }
    auto taking = take(mesh, {1, 2, 3}, taken);
    collected = co_await std::move(taking);
    EXPECT_LT(mesh.world().clock().now(), Time(kOptions.stall));  // nobody waits for the silent one
  };
  for (const auto& outcome : mesh.run(task, Time(1h))) EXPECT_FALSE(outcome) << outcome->what();
  EXPECT_EQ(taken, values_);
  EXPECT_GT(collected.by[1], 0u);
  EXPECT_EQ(collected.by[2], 0u);
  EXPECT_EQ(collected.by[0] + collected.by[1], 98u);
}

// The first does as the others say, and gives something else; the second has something else from the beginning.
TEST_F(DonationTest, WhoeverHasOrGivesSomethingElseIsLeftOut) {
  VirtualMesh mesh(5, {.latency = 2ms});
  std::vector<float> taken(values_.size());
  Collected collected;
  const auto task = [&](std::size_t rank) -> Task<> {
    if (rank == 1) {
      const auto channel = mesh.links(1)[0]->open(kChannel);
      const Donation donation = offered(values_);
      auto offering = channel->send({}, std::as_bytes(std::span(donation.digests)));
      co_await std::move(offering);
      try {
        for (;;) {
          auto hearing = channel->receive(net::MutableBytes());
          const net::Label label = co_await std::move(hearing);
          const std::vector<float> other(std::min<std::size_t>(1024, values_.size() - 1024 * label.tag), 7.0f);
          auto giving = channel->send({.tag = label.tag}, std::as_bytes(std::span(other)));
          co_await std::move(giving);
        }
      } catch (const net::LinkError& error) {
        EXPECT_EQ(error.text(), "gave other bytes than it had said");
      }
      co_return;
    }
    if (rank > 0) {
      auto giving = give(mesh, rank, rank == 2 ? some_values(values_.size(), 5) : values_);
      co_return co_await std::move(giving);
    }
    auto taking = take(mesh, {1, 2, 3, 4}, taken);
    collected = co_await std::move(taking);
  };
  for (const auto& outcome : mesh.run(task, Time(1h))) EXPECT_FALSE(outcome) << outcome->what();
  EXPECT_EQ(taken, values_);
  EXPECT_EQ(collected.by[0], 0u);
  EXPECT_EQ(collected.by[1], 0u);
}

TEST_F(DonationTest, WhatHasComeNeedNotComeAgain) {
  VirtualMesh mesh(3, {.bandwidth = 8e6, .latency = 2ms});
  std::vector<float> taken(values_.size());
  Collected collected;
  const auto task = [&](std::size_t rank) -> Task<> {
    if (rank == 1) {
      auto giving = give_until_lost(mesh, rank, 250ms);
      co_return co_await std::move(giving);
    }
    if (rank == 2) {
      auto staying = stay(mesh, 1s);
      co_await std::move(staying);
      auto giving = give(mesh, rank, values_);
      co_return co_await std::move(giving);
    }
    try {
      auto taking = take(mesh, {1}, taken);
      co_await std::move(taking);
      ADD_FAILURE();
    } catch (const net::LinkError& error) {
      EXPECT_EQ(error.peer(), "p1");
    }
    auto taking = take(mesh, {2}, taken);
    collected = co_await std::move(taking);
  };
  for (const auto& outcome : mesh.run(task, Time(1h))) EXPECT_FALSE(outcome) << outcome->what();
  EXPECT_EQ(taken, values_);
  EXPECT_GT(collected.had, 20u);
  EXPECT_LT(collected.had, 98u);
  EXPECT_EQ(collected.had + collected.chunks, 98u);
}

}  // namespace
}  // namespace rookery::collective
