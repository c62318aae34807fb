#include "measure/byte_cost.h"

#include <gtest/gtest.h>

namespace rookery::measure {
namespace {

// A copy into the kernel, one out of it and an addition: no computer does that for nothing, and none takes a
// microsecond for a byte.
TEST(ByteCostTest, IsThatOfThreePassesOverMemory) {
  const double cost = byte_cost();
  EXPECT_GT(cost, 1e-12);
  EXPECT_LT(cost, 1e-6);
}

}  // namespace
}  // namespace rookery::measure
