#pragma once

#include <cmath>
#include <cstdint>
#include <omp.h>
#include <vector>

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include "base/random.h"

namespace rookery::kernels {

// n floats in [-1, 1), the same for the same seed.
inline std::vector<float> random_floats(std::int64_t n, std::uint64_t seed) {
  Random random({seed});
  std::vector<float> values(static_cast<std::size_t>(n));
  for (float& value : values) value = static_cast<float>(2 * random.uniform() - 1);
  return values;
}

// Each |actual - expected| is within tolerance · max(1, |expected|); says where it is not.
template <typename Actual, typename Expected>
void expect_near(const Actual& actual, const Expected& expected, double tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const double e = expected[i];
    ASSERT_NEAR(actual[i], e, tolerance * std::max(1.0, std::abs(e))) << "at " << i;
  }
}

// The number of OpenMP threads, for the life of the object.
class Threads {
 public:
  explicit Threads(int count) : before_(omp_get_max_threads()) { omp_set_num_threads(count); }
  ~Threads() { omp_set_num_threads(before_); }
  Threads(const Threads&) = delete;

 private:
  int before_;
};

// What f returns must not depend on the number of threads, to the bit.
template <typename F>
auto same_with_any_threads(F f) {
  auto one = [&] {
    Threads threads(1);
    return f();
  }();
  for (int count : {2, 3}) {
    Threads threads(count);
    EXPECT_EQ(one, f()) << count << " threads";
  }
  return one;
}

// Restricts the dispatch to the instruction sets in `targets`, for the life of the object.
class Targets {
 public:
  explicit Targets(std::int64_t targets) { set(targets); }
  ~Targets() { set(0); }
  Targets(const Targets&) = delete;

 private:
  static void set(std::int64_t targets) {
    hwy::SetSupportedTargetsForTest(targets);
    hwy::GetChosenTarget().DeInit();  // so that the next dispatch chooses again
  }
};

// A suite that runs once per instruction set this machine has.
class EveryTarget : public testing::TestWithParam<std::int64_t> {
 private:
  Targets targets_{GetParam()};
};

inline std::vector<std::int64_t> every_target() { return hwy::SupportedAndGeneratedTargets(); }
inline std::string target_name(const testing::TestParamInfo<std::int64_t>& info) { return hwy::TargetName(info.param); }

}  // namespace rookery::kernels
