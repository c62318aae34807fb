#include "observe/internal/ticks.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rookery::observe::internal {
namespace {

using testing::ElementsAre;
using testing::Ge;
using testing::Le;
using testing::SizeIs;

std::vector<double> logarithmic(double low, double high, std::size_t most = 6) {
  return logarithmic_ticks({std::log10(low), std::log10(high)}, most);
}

TEST(TicksTest, LinearOnesAreMultiplesOfOneTwoOrFive) {
  EXPECT_THAT(linear_ticks({0, 5}, 6), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(linear_ticks({0, 10}, 6), ElementsAre(0, 2, 4, 6, 8, 10));
  EXPECT_THAT(linear_ticks({0, 23}, 6), ElementsAre(0, 5, 10, 15, 20));
  EXPECT_THAT(linear_ticks({-130, 170}, 4), ElementsAre(-100, 0, 100));
  EXPECT_THAT(linear_ticks({6, 9}, 2), ElementsAre(6, 8));
}

// Exactly: 35 * 0.01 would be 0.35000000000000003, and -0.0 is written as "-0".
TEST(TicksTest, LinearOnesAreTheNearestDoubles) {
  EXPECT_THAT(linear_ticks({0, 0.5}, 6), ElementsAre(0, 0.1, 0.2, 0.3, 0.4, 0.5));
  EXPECT_THAT(linear_ticks({0.15, 0.4}, 6), ElementsAre(0.15, 0.2, 0.25, 0.3, 0.35, 0.4));
  EXPECT_THAT(linear_ticks({2e-7, 8e-7}, 4), ElementsAre(2e-7, 4e-7, 6e-7, 8e-7));
  EXPECT_FALSE(std::signbit(linear_ticks({-0.3, 5}, 6).front()));
}

// 0.7 / 0.1 is 6.999999999999999.
TEST(TicksTest, EndsThatAreRoundHaveTicks) {
  EXPECT_THAT(linear_ticks({0.1, 0.7}, 7), ElementsAre(0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7));
}

TEST(TicksTest, LogarithmicOnesArePowersOfTen) {
  EXPECT_THAT(logarithmic(1, 100), ElementsAre(1, 10, 100));
  EXPECT_THAT(logarithmic(0.0007, 30), ElementsAre(0.001, 0.01, 0.1, 1, 10));
  EXPECT_THAT(logarithmic(1, 1e7), ElementsAre(1, 1e2, 1e4, 1e6));
}

TEST(TicksTest, LogarithmicOnesHaveTwosAndFivesOnLessThanTwoDecades) {
  EXPECT_THAT(logarithmic(1, 50), ElementsAre(1, 2, 5, 10, 20, 50));
  EXPECT_THAT(logarithmic(0.015, 0.3), ElementsAre(0.02, 0.05, 0.1, 0.2));
  EXPECT_THAT(logarithmic(1, 50, 5), ElementsAre(1, 10));  // six would be too many
}

TEST(TicksTest, LogarithmicOnesAreLinearOnAShortRange) {
  EXPECT_THAT(logarithmic(2.1, 4.6), ElementsAre(2.5, 3, 3.5, 4, 4.5));
}

TEST(TicksTest, ThereAreSomeButNotTooManyInAnyRange) {
  for (const double low : {-1e300, -7.3e5, -1.0, -1e-290, 0.0, 3e-280, 0.1, 6.0, 99.5, 1.7e8, 9e299}) {
    for (const double share : {1.1e-9, 3e-4, 0.07, 0.5, 1.0, 33.0}) {
      const double length = std::max(share * std::abs(low), 1.1e-290);
      for (const std::size_t most : {2, 3, 4, 5, 6}) {
        const Range range{low, std::min(low + length, 1e300)};
        const std::vector<double> ticks = linear_ticks(range, most);
        ASSERT_THAT(ticks, SizeIs(testing::AllOf(Ge(1), Le(most)))) << low << " and " << length << ", " << most;
        EXPECT_GE(ticks.front(), range.low - 1e-6 * length);
        EXPECT_LE(ticks.back(), range.high + 1e-6 * length);
      }
    }
  }
}

TEST(TicksTest, ThereAreSomeButNotTooManyInAnyLogarithmicRange) {
  for (const double low : {-300.0, -5.3, -0.2, 0.0, 0.35, 7.0, 250.0}) {
    for (const double length : {1e-6, 0.1, 0.3, 0.9, 1.5, 1.9999, 2.0, 5.5, 47.0}) {
      for (const std::size_t most : {2, 3, 4, 5, 6}) {
        EXPECT_THAT(logarithmic_ticks({low, low + length}, most), SizeIs(testing::AllOf(Ge(1), Le(most))))
            << low << " and " << length << ", " << most;
      }
    }
  }
}

}  // namespace
}  // namespace rookery::observe::internal
