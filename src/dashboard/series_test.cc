#include "dashboard/series.h"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rookery::dashboard {
namespace {

using testing::Optional;

observe::StepMetrics step(std::int64_t number, double loss = 1) {
  return {.step = number,
          .loss = loss,
          .seconds = 0.5 * static_cast<double>(number),
          .step_seconds = 0.5,
          .tokens = 100 * number};
}

TEST(SeriesTest, ARowForEachStep) {
  Series series;
  series.add(step(1, 4));
  observe::StepMetrics second = step(2, 3);
  second.eval_loss = 2.5;
  second.together = {.compute_seconds = 0.3, .wait_seconds = 0.1};
  series.add(second);
  ASSERT_EQ(series.rows().size(), 2);
  const Row& row = series.rows()[1];
  EXPECT_THAT(row[0], Optional(2.0));
  EXPECT_THAT(row[1], Optional(1.0));
  EXPECT_THAT(row[2], Optional(3.0));
  EXPECT_THAT(row[3], Optional(2.5));
  EXPECT_THAT(row[4], std::nullopt);
  EXPECT_THAT(row[9], Optional(200.0));  // tokens of half a second
  EXPECT_THAT(row[11], Optional(0.25));
  EXPECT_EQ(series.rows()[0][9], std::nullopt);
}

TEST(SeriesTest, WhatIsNoNumberIsLeftOut) {
  Series series;
  series.add(step(1, std::numeric_limits<double>::quiet_NaN()));
  EXPECT_EQ(series.rows()[0][2], std::nullopt);
}

TEST(SeriesTest, TwoRowsBecomeOneWhenThereAreTooMany) {
  Series series(4);
  for (std::int64_t i = 1; i <= 4; ++i) series.add(step(i, static_cast<double>(i)));
  EXPECT_EQ(series.stride(), 1);
  EXPECT_EQ(series.edition(), 0);
  observe::StepMetrics fifth = step(5, 5);
  series.add(fifth);
  EXPECT_EQ(series.stride(), 2);
  EXPECT_EQ(series.edition(), 1);
  ASSERT_EQ(series.rows().size(), 2);
  EXPECT_THAT(series.rows()[0][0], Optional(2.0));  // the last of its steps,
  EXPECT_THAT(series.rows()[0][2], Optional(1.5));  // and their mean loss
  series.add(step(6, 6));
  ASSERT_EQ(series.rows().size(), 3);
  EXPECT_THAT(series.rows()[2][0], Optional(6.0));
}

TEST(SeriesTest, StaysWithinItsBoundAndKeepsEvaluations) {
  Series series(100);
  std::size_t evaluations = 0;
  for (std::int64_t i = 1; i <= 100'000; ++i) {
    observe::StepMetrics one = step(i);
    if (i % 5000 == 0) one.eval_loss = static_cast<double>(i);
    series.add(one);
    ASSERT_LE(series.rows().size(), 100);
  }
  double last = 0;
  for (const Row& row : series.rows()) {
    EXPECT_GT(*row[0], last);
    last = *row[0];
    evaluations += row[3] ? 1 : 0;
  }
  EXPECT_GE(evaluations, 15);
}

TEST(SeriesTest, TheLastStepIsKnownWhateverItsRow) {
  Series series(4);
  EXPECT_FALSE(series.latest());
  for (std::int64_t i = 1; i <= 70; ++i) {
    series.add(step(i, static_cast<double>(i)));
    ASSERT_TRUE(series.latest());
    EXPECT_THAT((*series.latest())[0], Optional(static_cast<double>(i)));
    EXPECT_THAT((*series.latest())[2], Optional(static_cast<double>(i)));
    if (i > 1) {
      EXPECT_THAT((*series.latest())[9], Optional(200.0)) << i;
    }
  }
  EXPECT_EQ(series.stride(), 16);
  EXPECT_LT(*series.rows().back()[0], 70);
}

// One step takes ten seconds, the others a tenth of a second each: rates of steps have no mean that says anything.
TEST(SeriesTest, RatesAreThoseOfAllTokensInTheTimeOfARow) {
  Series series(10);
  double seconds = 0;
  for (std::int64_t i = 1; i <= 400; ++i) {
    seconds += i % 10 == 0 ? 10 : 0.1;
    series.add({.step = i, .seconds = seconds, .tokens = 100 * i});
  }
  ASSERT_GE(series.stride(), 40);
  for (std::size_t i = 1; i < series.rows().size(); ++i) {
    const double tokens = 100 * (*series.rows()[i][0] - *series.rows()[i - 1][0]);
    EXPECT_THAT(series.rows()[i][9],
                Optional(testing::DoubleNear(tokens / (*series.rows()[i][1] - *series.rows()[i - 1][1]), 1e-6)));
  }
}

// Steps that are reported together say nothing of how fast they were.
TEST(SeriesTest, RatesAreSmooth) {
  Series series;
  for (std::int64_t i = 1; i <= 1000; ++i) {
    series.add(
        {.step = i, .seconds = static_cast<double>(i / 10) + 0.001 * static_cast<double>(i % 10), .tokens = 100 * i});
  }
  for (std::size_t i = 50; i < series.rows().size(); ++i) {
    ASSERT_TRUE(series.rows()[i][9]);
    EXPECT_NEAR(*series.rows()[i][9], 1000, 500);
  }
}

TEST(SeriesTest, RatesDoNotCountStepsTwice) {
  Series series;
  for (std::int64_t i = 1; i <= 10; ++i) series.add(step(i));
  observe::StepMetrics again = step(7);
  again.seconds = 30;
  series.add(again);
  EXPECT_EQ(series.rows().back()[9], std::nullopt);
  again = step(8);
  again.seconds = 30.5;
  series.add(again);
  EXPECT_THAT(series.rows().back()[9], Optional(200.0));
}

TEST(SeriesTest, StepsThatAreDoneAgainReplaceThoseBefore) {
  Series series;
  for (std::int64_t i = 1; i <= 10; ++i) series.add(step(i, 1));
  series.add(step(7, 2));
  ASSERT_EQ(series.rows().size(), 7);
  EXPECT_THAT(series.rows()[6][2], Optional(2.0));
  EXPECT_EQ(series.edition(), 1);
}

}  // namespace
}  // namespace rookery::dashboard
