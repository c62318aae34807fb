#include "tensor/allocator.h"

#include <cstring>
#include <random>
#include <set>
#include <thread>

#include <ATen/ATen.h>
#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>

namespace rookery {
namespace {

class AllocatorTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { install_tensor_allocator(); }
};

TEST_F(AllocatorTest, FreedMemoryIsUsedAgain) {
  const Bytes used = allocator_statistics().used;
  for (int i = 0; i < 100; ++i) {
    const at::Tensor t = at::empty({8 << 20});
    EXPECT_GE(allocator_statistics().used, used + (32 << 20));
  }
  EXPECT_EQ(allocator_statistics().used, used);
  EXPECT_LE(allocator_statistics().reserved, Bytes{256} << 20);
}

// Blocks of all sizes, freed in another order: contents never overlap, and everything merges back into whole arenas.
TEST_F(AllocatorTest, BlocksKeepTheirContentsAndMerge) {
  const Bytes used = allocator_statistics().used;
  std::mt19937 random(1);
  std::vector<std::pair<at::Tensor, float>> live;
  for (int i = 0; i < 2000; ++i) {
    if (live.size() > 50 || (!live.empty() && random() % 3 == 0)) {
      const std::size_t victim = random() % live.size();
      const auto [tensor, value] = live[victim];
      ASSERT_TRUE(tensor.eq(value).all().item<bool>());
      live.erase(live.begin() + static_cast<std::ptrdiff_t>(victim));
    } else {
      const auto value = static_cast<float>(i);
      live.emplace_back(at::full({1 + static_cast<std::int64_t>(random() % 200000)}, value), value);
      ASSERT_EQ(reinterpret_cast<std::uintptr_t>(live.back().first.data_ptr()) % 64, 0u);
    }
  }
  live.clear();
  EXPECT_EQ(allocator_statistics().used, used);
  const Bytes reserved = allocator_statistics().reserved;
  const at::Tensor whole_arena = at::empty({16 << 20});
  EXPECT_EQ(allocator_statistics().reserved, reserved);
}

TEST_F(AllocatorTest, BarePointersCanBeFreed) {
  const Bytes used = allocator_statistics().used;
  c10::Allocator* allocator = c10::GetCPUAllocator();
  for (const std::size_t size : {0u, 100u, 1u << 20}) {
    void* pointer = allocator->raw_allocate(size);
    if (size > 0) std::memset(pointer, 1, size);
    allocator->raw_deallocate(pointer);
  }
  EXPECT_EQ(allocator_statistics().used, used);
}

TEST_F(AllocatorTest, TensorsOfOneSizeCountTheSame) {
  // Blocks that malloc takes from holes of various sizes.
  std::vector<at::Tensor> holes, fillers;
  for (int i = 0; i < 500; ++i) {
    holes.push_back(at::empty({8 + i % 37}));
    fillers.push_back(at::empty({3 + i % 11}));
  }
  holes.clear();
  std::set<Bytes> sizes;
  for (int i = 0; i < 200; ++i) {
    const Bytes before = allocator_statistics().used;
    fillers.push_back(at::empty({5}));
    sizes.insert(allocator_statistics().used - before);
  }
  EXPECT_EQ(sizes.size(), 1u);
}

TEST_F(AllocatorTest, WhatIsFreeCanBeGivenBack) {
  trim_tensor_memory();
  const Bytes reserved = allocator_statistics().reserved;
  at::Tensor kept = at::full({1 << 20}, 3.0f);
  { const at::Tensor gone = at::empty({100 << 20}); }
  EXPECT_GT(allocator_statistics().reserved, reserved + (Bytes{300} << 20));
  trim_tensor_memory();
  EXPECT_LE(allocator_statistics().reserved, reserved + (Bytes{64} << 20));
  EXPECT_TRUE(kept.eq(3).all().item<bool>());
  kept = at::full({30 << 20}, 4.0f);
  EXPECT_TRUE(kept.eq(4).all().item<bool>());
}

TEST_F(AllocatorTest, ThreadsMayShareIt) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      for (int i = 1; i < 200; ++i) {
        const at::Tensor tensor = at::full({i * 1000}, static_cast<float>(t));
        ASSERT_TRUE(tensor.eq(t).all().item<bool>());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace rookery
