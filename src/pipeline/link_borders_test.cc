#include "pipeline/link_borders.h"

#include <gtest/gtest.h>

#include "collective/testing/virtual_mesh.h"

namespace rookery::pipeline {
namespace {

using namespace std::chrono_literals;
using collective::testing::VirtualMesh;

constexpr std::size_t kValues = 25'000;  // 100 kB: a second at 800 kbit/s

Border border_of(std::uint64_t number) {
  const auto kept = std::make_shared<const std::vector<float>>(kValues, static_cast<float>(number));
  return {.micro_batch = number, .tensors = {{TensorType::kFloat, {kValues}, std::as_bytes(std::span(*kept)), kept}}};
}

// Two stages that are 800 kbit/s apart; the first sends `count` borders, one each 10 ms, and the numbers are returned
// that the second has taken when all have had time to come.
std::vector<std::uint64_t> taken(std::uint64_t count, bool newest, std::size_t most) {
  VirtualMesh mesh(2, {.bandwidth = 800e3});
  Clock& clock = mesh.world().clock();
  const LinkBordersOptions options{
      .most_forward = most, .forward_bytes = kValues * sizeof(float) + 4096, .newest_forward = newest};
  std::vector<std::uint64_t> numbers;
  const auto task = [&](std::size_t rank) -> Task<> {
    LinkBorders borders(clock, clock.executor(), rank == 1 ? mesh.links(1)[0] : nullptr,
                        rank == 0 ? mesh.links(0)[1] : nullptr, options);
    for (std::uint64_t i = 0; rank == 0 && i < count; ++i) {
      borders.send_forward(border_of(i));
      auto sleeping = clock.sleep_for(10ms);
      co_await std::move(sleeping);
    }
    auto sleeping = clock.sleep_for(10min);
    co_await std::move(sleeping);
    while (rank == 1) {
      const std::optional<Border> border = borders.take_forward();
      if (!border) break;
      numbers.push_back(border->micro_batch);
    }
    auto staying = clock.sleep_for(1s);
    co_await std::move(staying);
  };
  for (const auto& outcome : mesh.run(task, Time(1h))) EXPECT_FALSE(outcome) << outcome->what();
  return numbers;
}

TEST(LinkBordersTest, EverythingArrivesInOrder) {
  EXPECT_EQ(taken(5, false, 5), (std::vector<std::uint64_t>{0, 1, 2, 3, 4}));
}

// Sending all of it would take five minutes; one is on its way when newer ones come, and of those one waits.
TEST(LinkBordersTest, WhatWaitsToBeSentGivesWayToWhatIsNewer) {
  const std::vector<std::uint64_t> numbers = taken(300, true, 100);
  EXPECT_TRUE(std::ranges::is_sorted(numbers));
  ASSERT_GE(numbers.size(), 3u);
  EXPECT_LE(numbers.size(), 10u);
  EXPECT_EQ(numbers.front(), 0u);
  EXPECT_EQ(numbers.back(), 299u);
}

TEST(LinkBordersTest, WhatWaitsToBeTakenGivesWayToWhatIsNewer) {
  EXPECT_EQ(taken(300, true, 1), (std::vector<std::uint64_t>{299}));
}

}  // namespace
}  // namespace rookery::pipeline
