#include "train/buddies.h"

#include <gtest/gtest.h>

#include "collective/testing/virtual_mesh.h"

namespace rookery::train {
namespace {

using namespace std::chrono_literals;
using collective::testing::VirtualMesh;

constexpr std::size_t kMost = 1 << 20;

// Stages that keep copies of each other.
struct BuddiesTest : ::testing::Test {
  void begin(std::size_t count, std::uint32_t since = 1) {
    stages = count;
    if (!mesh) mesh = std::make_unique<VirtualMesh>(count, net::LineOptions{.bandwidth = 100e6, .latency = 2ms});
    if (all.empty()) {
      held.resize(count);
      for (std::size_t stage = 0; stage < count; ++stage) {
        all.push_back(std::make_unique<Buddies>(mesh->world().clock(), kMost,
                                                [this, stage](std::uint64_t step) { held[stage].push_back(step); }));
      }
    }
    for (std::size_t stage = 0; stage < count; ++stage) {
      const auto links = mesh->links(stage);
      all[stage]->begin({.stage = stage,
                         .stages = count,
                         .since = since,
                         .next = links[(stage + 1) % count],
                         .previous = links[(stage + count - 1) % count]});
    }
  }

  static Snapshot snapshot(std::size_t stage, std::uint64_t step) {
    return Snapshot(40'000 + stage, static_cast<float>(100 * stage + step));
  }

  void keep(std::uint64_t step) {
    for (std::size_t stage = 0; stage < stages; ++stage) all[stage]->keep(step, snapshot(stage, step));
  }

  void pass(Duration time) { mesh->world().run(mesh->world().clock().now() + time); }

  void cover(std::uint64_t step) {
    for (const auto& buddies : all) buddies->covered(step);
  }

  std::size_t stages = 0;
  std::unique_ptr<VirtualMesh> mesh;
  std::vector<std::unique_ptr<Buddies>> all;
  std::vector<std::vector<std::uint64_t>> held;
};

TEST_F(BuddiesTest, EveryStageHasACopyOfTheOneBeforeIt) {
  for (const std::size_t count : {2, 3, 5}) {
    struct Once : BuddiesTest {
      void TestBody() override {}
    } once;
    once.begin(count);
    once.keep(10);
    once.pass(1s);
    for (std::size_t stage = 0; stage < count; ++stage) {
      EXPECT_EQ(once.held[stage], (std::vector<std::uint64_t>{10}));
      ASSERT_TRUE(once.all[stage]->own(10));
      const auto copy = once.all[(stage + 1) % count]->of_previous(10);
      ASSERT_TRUE(copy);
      EXPECT_EQ(*copy, snapshot(stage, 10));
      EXPECT_FALSE(once.all[stage]->of_previous(20));
    }
    once.all.clear();
    once.pass(1s);
  }
}

TEST_F(BuddiesTest, WhatIsCoveredStaysUntilTheNextIs) {
  begin(3);
  keep(10);
  pass(1s);
  EXPECT_FALSE(all[0]->wants(20, 10)) << "nobody has said yet that the last one is covered";
  EXPECT_TRUE(all[0]->wants(50, 10)) << "somebody must have left it out";
  cover(10);
  EXPECT_TRUE(all[0]->wants(20, 10));
  EXPECT_FALSE(all[0]->wants(25, 10));
  keep(20);
  EXPECT_FALSE(all[0]->wants(90, 10)) << "it is on its way";
  pass(1s);
  for (const auto& buddies : all) {
    EXPECT_TRUE(buddies->own(10) && buddies->own(20) && buddies->of_previous(10) && buddies->of_previous(20));
  }
  cover(20);
  for (const auto& buddies : all) EXPECT_FALSE(buddies->own(10) || buddies->of_previous(10));
  all.clear();
  pass(1s);
}

// Whoever is new gets the copy of the stage before it again, without a word.
TEST_F(BuddiesTest, AfterGoingBackEverybodyHasItsCopyAgain) {
  begin(3);
  keep(10);
  pass(1s);
  cover(10);
  keep(20);
  pass(1ms);  // it does not get far
  all[1] =
      std::make_unique<Buddies>(mesh->world().clock(), kMost, [this](std::uint64_t step) { held[1].push_back(step); });
  const auto of_the_lost = all[2]->of_previous(10);
  ASSERT_TRUE(of_the_lost);
  for (std::size_t stage = 0; stage < 3; ++stage)
    all[stage]->go_back(10, stage == 1 ? of_the_lost : all[stage]->own(10));
  begin(3, 2);
  pass(1s);
  for (std::size_t stage = 0; stage < 3; ++stage) {
    EXPECT_EQ(held[stage].back(), 10u);
    ASSERT_TRUE(all[stage]->own(10) && all[stage]->of_previous(10));
    EXPECT_EQ(*all[stage]->of_previous(10), snapshot((stage + 2) % 3, 10));
    EXPECT_FALSE(all[stage]->own(20) || all[stage]->of_previous(20));
  }
  cover(10);
  keep(20);
  pass(1s);
  for (const auto& steps : held) EXPECT_EQ(steps.back(), 20u);
  all.clear();
  pass(1s);
}

TEST_F(BuddiesTest, ACopyThatIsTooLargeIsRefused) {
  begin(2);
  all[0]->keep(10, Snapshot(kMost + 1));
  all[1]->keep(10, snapshot(1, 10));
  pass(10s);
  EXPECT_TRUE(held[1].empty());
  EXPECT_EQ(held[0], (std::vector<std::uint64_t>{10}));
  all.clear();
  pass(1s);
}

}  // namespace
}  // namespace rookery::train
