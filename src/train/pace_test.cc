#include "train/pace.h"

#include <ctime>

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

TEST(PaceTest, AStepTakesAtLeastWhatItPretendsTo) {
  Pace pace({.step_time = 20ms}, 1, "attic");
  step(pace, 0);  // what it takes is learnt
  for (int i = 1; i < 4; ++i) EXPECT_GE(step(pace, i), 19ms);
  Pace slow({.speed = 0.5, .step_time = 20ms}, 1, "attic");
  step(slow, 0);
  EXPECT_GE(step(slow, 1), 39ms);
}

TEST(PaceTest, StepsFromWhichItLearnsAreMadeUpFor) {
  Pace pace({.speed = 0.25}, 1, "attic");
  const auto start = Steady::now();
  for (int i = 0; i < 20; ++i) step(pace, i);
  EXPECT_GE(Steady::now() - start, 20 * 12ms * 9 / 10);  // as if all had been slow
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
  for (int i = 0; i < 3; ++i) {
    const auto start = Steady::now();
    half(i, Pace::Kind::kBackward);
    half(i, Pace::Kind::kLastBackward);
    if (i == 0) continue;
    EXPECT_GE(Steady::now() - start, 18ms);
  }
}

}  // namespace
}  // namespace rookery::train
