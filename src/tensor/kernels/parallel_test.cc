#include "tensor/kernels/parallel.h"

#include <vector>

#include <gtest/gtest.h>

#include "tensor/kernels/internal/test_support.h"

namespace rookery::kernels {
namespace {

TEST(ParallelFor, covers_every_item_once_in_multiples_of_the_grain) {
  for (int count : {1, 2, 3}) {
    Threads threads(count);
    for (std::int64_t n : {0, 1, 7, 8, 9, 17, 100}) {
      for (std::int64_t grain : {1, 4, 1000}) {
        std::vector<int> seen(static_cast<std::size_t>(n));
        parallel_for(n, grain, [&](std::int64_t begin, std::int64_t end) {
          EXPECT_EQ(begin % grain, 0);
          EXPECT_TRUE(end == n || end % grain == 0);
          for (std::int64_t i = begin; i < end; ++i) ++seen[static_cast<std::size_t>(i)];
        });
        EXPECT_EQ(seen, std::vector<int>(static_cast<std::size_t>(n), 1));
      }
    }
  }
}

TEST(ParallelFor, runs_inline_inside_a_parallel_region) {
  Threads threads(2);
  parallel_for(2, 1, [](std::int64_t, std::int64_t) {
    int calls = 0;
    parallel_for(100, 1, [&](std::int64_t, std::int64_t) { ++calls; });
    EXPECT_EQ(calls, 1);
  });
}

}  // namespace
}  // namespace rookery::kernels
