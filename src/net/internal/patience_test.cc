#include "net/internal/patience.h"

#include <gtest/gtest.h>

namespace rookery::net::internal {
namespace {

using namespace std::chrono_literals;

void hear(Patience& patience, Duration gap, int times) {
  for (int i = 0; i < times; ++i) patience.heard(gap);
}

TEST(PatienceTest, AStrangerGetsWhatStrangersGet) {
  Patience patience(1s, 10s);
  EXPECT_EQ(patience.limit(), 10s);
  hear(patience, 1s, 4);
  EXPECT_EQ(patience.limit(), 10s);
}

TEST(PatienceTest, WhoeverIsPunctualIsMissedSoon) {
  Patience patience(1s, 10s);
  hear(patience, 1s, 20);
  EXPECT_EQ(patience.limit(), 4s);
  hear(patience, 1ms, 1'000'000);  // it has much to say
  EXPECT_EQ(patience.limit(), 3s);
}

TEST(PatienceTest, WhoeverWasLateIsGivenTimeAndForgiven) {
  Patience patience(1s, 10s);
  hear(patience, 1s, 20);
  patience.heard(6s);
  EXPECT_EQ(patience.limit(), 19s);
  patience.heard(1h);
  EXPECT_EQ(patience.limit(), 30s);  // but not for ever
  hear(patience, 1s, 600);
  EXPECT_LT(patience.limit(), 12s);
  hear(patience, 1s, 3600);
  EXPECT_EQ(patience.limit(), 4s);
}

TEST(PatienceTest, NobodyIsGivenLessThanStrangersIfTheyGetLittle) {
  Patience patience(1s, 2s);
  hear(patience, 1ms, 100'000);
  EXPECT_EQ(patience.limit(), 2s);
}

}  // namespace
}  // namespace rookery::net::internal
