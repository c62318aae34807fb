#include "train/pace.h"

#include <gtest/gtest.h>

namespace rookery::train {
namespace {

using namespace std::chrono_literals;
using Steady = std::chrono::steady_clock;

void work(std::chrono::milliseconds duration) {
  const auto end = Steady::now() + duration;
  while (Steady::now() < end) continue;
}

// A step of two parts, one after the other; how long it took.
Steady::duration step(Pace& pace, std::int64_t number) {
  const auto start = Steady::now();
  pace.begin(number, Pace::Kind::kGradient);
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

TEST(PaceTest, WhatIsWaitedForComesOnTop) {
  Pace pace({.step_time = 20ms}, 1, "attic");
  step(pace, 0);
  const auto start = Steady::now();
  pace.begin(1, Pace::Kind::kGradient);
  pace.keep();
  work(10ms);
  pace.waited(10ms);
  pace.keep();
  EXPECT_GE(Steady::now() - start, 29ms);
}

}  // namespace
}  // namespace rookery::train
