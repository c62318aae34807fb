#include "collective/handover.h"

#include <numeric>

#include <gtest/gtest.h>

#include "collective/testing/virtual_mesh.h"

namespace rookery::collective {
namespace {

using namespace std::chrono_literals;

constexpr net::ChannelId kChannel{.purpose = 0x0500, .generation = 3, .index = 7};

TEST(HandoverTest, ValuesArriveWhoeverIsFirst) {
  for (const bool taker_first : {false, true}) {
    testing::VirtualMesh mesh(2, {.latency = 5ms});
    std::vector<float> values(100001), taken;
    std::iota(values.begin(), values.end(), 1.0f);
    const auto task = [&](std::size_t rank) -> Task<> {
      Clock& clock = mesh.world().clock();
      auto waiting = clock.sleep_for((rank == 0) == taker_first ? 3s : 0s);
      co_await std::move(waiting);
      if (rank == 0) {
        auto handing = hand_on(clock, *mesh.links(0)[1], kChannel, values, {});
        co_await std::move(handing);
      } else {
        auto taking = take_on(clock, *mesh.links(1)[0], kChannel, values.size(), {});
        taken = co_await std::move(taking);
      }
      auto staying = clock.sleep_for(1s);
      co_await std::move(staying);
    };
    for (const auto& outcome : mesh.run(task, Time(1h))) EXPECT_FALSE(outcome) << outcome->what();
    EXPECT_EQ(taken, values);
  }
}

TEST(HandoverTest, NobodyWaitsForOneWhoIsLostOrNeverComes) {
  for (const bool dies : {false, true}) {
    testing::VirtualMesh mesh(2, {.bandwidth = 8e6});
    const auto task = [&](std::size_t rank) -> Task<> {
      Clock& clock = mesh.world().clock();
      if (rank == 1) {
        auto living = clock.sleep_for(dies ? 100ms : 10min);
        co_await std::move(living);
        if (dies) mesh.kill(1);
        co_return;
      }
      auto taking = take_on(clock, *mesh.links(0)[1], kChannel, 1000000, {});
      co_await std::move(taking);
    };
    const auto outcomes = mesh.run(task, Time(1h));
    ASSERT_TRUE(outcomes[0]);
    EXPECT_EQ(outcomes[0]->failure(), dies ? net::Failure::kClosed : net::Failure::kLate);
    EXPECT_EQ(outcomes[0]->peer(), "p1");
  }
}

}  // namespace
}  // namespace rookery::collective
