#include "train/pace.h"

#include <ctime>
#include <thread>

#include <gtest/gtest.h>

namespace rookery::train {
namespace {

using namespace std::chrono_literals;
using Steady = std::chrono::steady_clock;

std::chrono::nanoseconds processor_time() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

// Takes that much of a processor, however busy the computer is.
void work(std::chrono::milliseconds duration) {
  const auto end = processor_time() + duration;
  while (processor_time() < end) continue;
}

// A step: a forward, and a backward of two parts, one after the other; how long it took.
Steady::duration step(Pace& pace, std::int64_t number) {
  const auto start = Steady::now();
  pace.begin(number, Pace::Kind::kForward);
  work(1ms);
  pace.keep();
  pace.begin(number, Pace::Kind::kLastBackward);
  work(1ms);
  pace.keep();
  work(1ms);
  pace.keep();
  return Steady::now() - start;
}

// Steps may be shorter by what the one before was late by, so it is all of them that count; the first is learnt from.
Steady::duration steps(Pace& pace, int count) {
  step(pace, 0);
  const auto start = Steady::now();
  for (int i = 1; i <= count; ++i) step(pace, i);
  return Steady::now() - start;
}

TEST(PaceTest, AStepTakesAtLeastWhatItPretendsTo) {
  Pace pace({.step_time = 20ms}, 1, "attic");
  EXPECT_GE(steps(pace, 6), 5 * 20ms);
  Pace slow({.speed = 0.5, .step_time = 20ms}, 1, "attic");
  EXPECT_GE(steps(slow, 6), 5 * 40ms);
}

TEST(PaceTest, WhoeverIsLateMakesUpForItOnce) {
  Pace pace({.step_time = 40ms}, 1, "attic");
  step(pace, 0);
  step(pace, 1);
  const auto start = Steady::now();
  pace.begin(2, Pace::Kind::kForward);  // wants 40 / 3 ms
  std::this_thread::sleep_for(500ms);
  pace.keep();
  pace.begin(2, Pace::Kind::kLastBackward);
  work(1ms);
  pace.keep();
  work(1ms);
  pace.keep();
  for (int i = 3; i < 7; ++i) step(pace, i);
  EXPECT_GE(Steady::now() - start, 500ms + 4 * 40ms - 40ms);  // not all of the 500 ms
}

TEST(PaceTest, WithoutATimeNobodyWaits) {
  Pace pace({.speed = 1e-6}, 1, "attic");
  EXPECT_LT(steps(pace, 3), 1min);  // or it would be hours
}

TEST(PaceTest, AllMicroBatchesTogetherTakeAStep) {
  Pace pace({.step_time = 20ms, .micro_batches = 2}, 1, "attic");
  const auto half = [&](std::int64_t number, Pace::Kind backward) {
    pace.begin(number, Pace::Kind::kForward);
    work(1ms);
    pace.keep();
    pace.begin(number, backward);
    work(1ms);
    pace.keep();
  };
  half(0, Pace::Kind::kBackward);
  half(0, Pace::Kind::kLastBackward);
  const auto start = Steady::now();
  for (int i = 1; i < 7; ++i) {
    half(i, Pace::Kind::kBackward);
    half(i, Pace::Kind::kLastBackward);
  }
  EXPECT_GE(Steady::now() - start, 5 * 20ms - 10ms);
}

}  // namespace
}  // namespace rookery::train
