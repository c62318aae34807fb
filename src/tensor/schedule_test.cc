#include "tensor/schedule.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace rookery {
namespace {

ScheduleOptions options(const std::string& kind) {
  return {.kind = kind, .peak = 2, .floor = 0.1, .warmup = 10, .steps = 110};
}

TEST(ScheduleTest, AllWarmUpLinearly) {
  for (const char* kind : {"constant", "cosine", "linear", "inverse-sqrt"}) {
    EXPECT_DOUBLE_EQ(learning_rate(options(kind), 0), 0.2) << kind;
    EXPECT_DOUBLE_EQ(learning_rate(options(kind), 4), 1.0) << kind;
    EXPECT_DOUBLE_EQ(learning_rate(options(kind), 9), 2.0) << kind;
  }
}

TEST(ScheduleTest, EndsWhereItShould) {
  EXPECT_DOUBLE_EQ(learning_rate(options("constant"), 109), 2);
  EXPECT_NEAR(learning_rate(options("cosine"), 59), 1.1, 1e-12);
  EXPECT_NEAR(learning_rate(options("cosine"), 109), 0.2, 1e-12);
  EXPECT_NEAR(learning_rate(options("linear"), 59), 1.1, 1e-12);
  EXPECT_NEAR(learning_rate(options("linear"), 109), 0.2, 1e-12);
  EXPECT_NEAR(learning_rate(options("inverse-sqrt"), 39), 1, 1e-12);
}

TEST(ScheduleTest, StaysAtTheFloorAfterTheEnd) { EXPECT_NEAR(learning_rate(options("cosine"), 500), 0.2, 1e-12); }

TEST(ScheduleTest, WorksWithoutWarmUp) {
  ScheduleOptions o = options("inverse-sqrt");
  o.warmup = 0;
  EXPECT_DOUBLE_EQ(learning_rate(o, 0), 2);
  EXPECT_DOUBLE_EQ(learning_rate(o, 3), 1);
}

TEST(ScheduleTest, UnknownKindIsTheUsersMistake) { EXPECT_THROW(learning_rate(options("cosin"), 50), InputError); }

}  // namespace
}  // namespace rookery
