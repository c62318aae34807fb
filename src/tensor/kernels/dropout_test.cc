#include "tensor/kernels/dropout.h"

#include <gtest/gtest.h>

#include "tensor/kernels/internal/targets.h"
#include "tensor/kernels/internal/test_support.h"

namespace rookery::kernels {
namespace {

std::vector<float> mask(std::int64_t n, float keep, std::uint64_t key) {
  std::vector<float> values(static_cast<std::size_t>(n), 1.0f);
  dropout(n, values.data(), keep, key, values.data());
  return values;
}

// How far a count of successes in n draws is from its mean, in standard deviations.
double deviation(double count, double n, double probability) {
  return std::abs(count - n * probability) / std::sqrt(n * probability * (1 - probability));
}

TEST(Dropout, scales_what_it_keeps) {
  const auto x = random_floats(100, 1);
  std::vector<float> out(100);
  dropout(100, x.data(), 0.75f, 42, out.data());
  int kept = 0;
  for (int i = 0; i < 100; ++i) {
    if (out[i] == 0) continue;
    ++kept;
    EXPECT_FLOAT_EQ(out[i], x[i] / 0.75f);
  }
  EXPECT_GT(kept, 50);
  EXPECT_LT(kept, 95);
  dropout(100, x.data(), 1, 42, out.data());
  EXPECT_EQ(out, x);
}

TEST(Dropout, is_a_function_of_key_and_index) {
  const auto all = mask(1001, 0.5f, 7);
  for (std::int64_t n : {1, 7, 8, 9, 100, 1000}) {
    EXPECT_EQ(mask(n, 0.5f, 7), std::vector<float>(all.begin(), all.begin() + n));
  }
  EXPECT_NE(mask(1001, 0.5f, 8), all);
}

TEST(Dropout, keeps_the_right_share_and_neighbours_are_independent) {
  const std::int64_t n = 1 << 16;
  for (float keep : {0.1f, 0.5f, 0.9f}) {
    for (std::uint64_t key = 0; key < 4; ++key) {
      const auto a = mask(n, keep, key), b = mask(n, keep, key + 1);
      double kept = 0, with_next = 0, with_far = 0, with_other_key = 0;
      for (std::int64_t i = 0; i < n; ++i) {
        kept += a[i] != 0;
        with_next += a[i] != 0 && a[(i + 1) % n] != 0;
        with_far += a[i] != 0 && a[(i + 256) % n] != 0;
        with_other_key += a[i] != 0 && b[i] != 0;
      }
      EXPECT_LT(deviation(kept, n, keep), 4.5);
      for (double pairs : {with_next, with_far, with_other_key}) EXPECT_LT(deviation(pairs, n, keep * keep), 4.5);
    }
  }
}

TEST(Dropout, threads_and_instruction_sets_do_not_change_it) {
  const auto reference = same_with_any_threads([] { return mask(100'001, 0.3f, 3); });
  for (std::int64_t target : every_target()) {
    Targets targets(target);
    EXPECT_EQ(mask(100'001, 0.3f, 3), reference) << hwy::TargetName(target);
  }
}

}  // namespace
}  // namespace rookery::kernels
