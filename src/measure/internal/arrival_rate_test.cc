#include "measure/internal/arrival_rate.h"

#include <gtest/gtest.h>

namespace rookery::measure {
namespace {

using namespace std::chrono_literals;

// A piece every millisecond; whoever receives is busy from `begin` to `end`, and then finds all that has come.
std::vector<Time> arrivals(std::size_t count, Duration begin = 0ms, Duration end = 0ms) {
  std::vector<Time> times;
  for (std::size_t i = 0; i < count; ++i) {
    const Time came = Time{} + i * 1ms;
    times.push_back(came >= Time{} + begin && came < Time{} + end ? Time{} + end : came);
  }
  return times;
}

TEST(ArrivalRateTest, PiecesThatComeEvenly) {
  for (const std::size_t count : {2u, 3u, 4u, 7u, 64u}) EXPECT_NEAR(rate_of(half_burst(arrivals(count))), 1000, 1e-6);
}

TEST(ArrivalRateTest, WhoeverWasBusyForAWhileFindsTheSame) {
  for (const int begin : {0, 5, 12, 24, 36}) {
    const auto found = half_burst(arrivals(40, begin * 1ms, (begin + 8) * 1ms));
    EXPECT_NEAR(rate_of(found), 1000, 150) << "from " << begin << " ms on";
  }
}

TEST(ArrivalRateTest, NothingIsKnownOfWhatCameAtOnce) {
  EXPECT_EQ(rate_of(half_burst({})), 0);
  EXPECT_EQ(rate_of(half_burst(arrivals(1))), 0);
  EXPECT_EQ(rate_of(half_burst(arrivals(16, 0ms, 16ms))), 0);
}

}  // namespace
}  // namespace rookery::measure
