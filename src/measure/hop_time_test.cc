#include "measure/hop_time.h"

#include <gtest/gtest.h>

namespace rookery::measure {
namespace {

// Two switches of threads: no computer does that in a tenth of a microsecond, and none that is awake takes a second.
TEST(HopTimeTest, IsThatOfWakingAThread) {
  const double hop = hop_time();
  EXPECT_GT(hop, 1e-7);
  EXPECT_LT(hop, 1);
}

}  // namespace
}  // namespace rookery::measure
