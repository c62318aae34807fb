#include "net/internal/gauge.h"

#include <gtest/gtest.h>

namespace rookery::net::internal {
namespace {

using namespace std::chrono_literals;

// Bytes that come every millisecond, for so long.
Time stream(Gauge& gauge, Time from, std::chrono::milliseconds length, std::size_t bytes) {
  for (const Time end = from + length; from < end; from += 1ms) gauge.came(from, bytes);
  return from;
}

TEST(GaugeTest, BytesThatKeepComingTellHowFastTheyCan) {
  Gauge gauge;
  EXPECT_EQ(gauge.rate(), 0);
  stream(gauge, Time(1s), 200ms, 10'000);
  EXPECT_NEAR(gauge.rate(), 10e6, 1);
}

TEST(GaugeTest, PausesDoNotCount) {
  Gauge gauge;
  Time now(1s);
  for (int i = 0; i < 10; ++i) now = stream(gauge, now, 120ms, 10'000) + 500ms;
  EXPECT_NEAR(gauge.rate(), 10e6, 1);
  Gauge lonely;
  for (int i = 0; i < 100; ++i) lonely.came(Time(1s) + i * 100ms, 1'000'000);
  EXPECT_EQ(lonely.rate(), 0);
}

TEST(GaugeTest, ALinkThatHasBecomeSlowerIsFoundOutInTheEnd) {
  Gauge gauge;
  Time now = stream(gauge, Time(1s), 200ms, 10'000);
  now = stream(gauge, now, 1s, 1'000);
  EXPECT_GT(gauge.rate(), 2e6);
  stream(gauge, now, 20s, 1'000);
  EXPECT_NEAR(gauge.rate(), 1e6, 0.1e6);
}

}  // namespace
}  // namespace rookery::net::internal
