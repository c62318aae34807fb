#include "observe/series.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace rookery::observe {
namespace {

Series steps(std::int64_t count) {
  Series series;
  for (std::int64_t i = 1; i <= count; ++i) series.add({.step = i, .value = 1.0 / static_cast<double>(i)});
  return series;
}

TEST(SeriesTest, KeepsEverythingWhileThereIsRoom) {
  EXPECT_TRUE(Series().is_empty());
  EXPECT_TRUE(Series().points().empty());
  const std::vector<Point> one = steps(1).points();
  ASSERT_EQ(one.size(), 1u);
  EXPECT_EQ(one.front().step, 1);
  const std::vector<Point> points = steps(Series::kMost - 1).points();
  ASSERT_EQ(points.size(), Series::kMost - 1);
  EXPECT_EQ(points.back(), (Point{.step = Series::kMost - 1, .value = 1.0 / (Series::kMost - 1)}));
}

TEST(SeriesTest, ChoosesEvenlyFromMany) {
  for (const std::int64_t count : {4096, 4097, 8191, 10000, 100003}) {
    const std::vector<Point> points = steps(count).points();
    EXPECT_LE(points.size(), Series::kMost) << count;
    EXPECT_GE(points.size(), Series::kMost / 2) << count;
    EXPECT_EQ(points.front().step, 1);
    EXPECT_EQ(points.back().step, count);
    const std::int64_t stride = points[1].step - points[0].step;
    for (std::size_t i = 1; i + 1 < points.size(); ++i) {
      ASSERT_EQ(points[i].step - points[i - 1].step, stride) << count;
      ASSERT_EQ(points[i].value, 1.0 / static_cast<double>(points[i].step));
    }
    EXPECT_LE(points.back().step - points[points.size() - 2].step, stride);
  }
}

TEST(SeriesTest, WhatWasDoneAgainCountsAsItWasDoneLast) {
  Series series;
  for (const std::int64_t step : {1, 2, 3, 4}) series.add({.step = step, .value = 1});
  for (const std::int64_t step : {3, 4, 5}) series.add({.step = step, .value = 2});
  const std::vector<Point> points = series.points();
  ASSERT_EQ(points.size(), 5u);
  for (std::int64_t i = 0; i < 5; ++i) {
    EXPECT_EQ(points[static_cast<std::size_t>(i)], (Point{.step = i + 1, .value = i < 2 ? 1.0 : 2.0}));
  }
}

TEST(SeriesTest, WhatIsDoneAgainIsChosenFromItsFirstStepOn) {
  Series series = steps(5001);  // of which each second is kept
  for (std::int64_t i = 4000; i <= 4010; ++i) series.add({.step = i});
  const std::vector<Point> points = series.points();
  EXPECT_EQ(std::ranges::count(points, 3999, &Point::step), 1);
  EXPECT_EQ(std::ranges::count(points, 4000, &Point::step), 1);
  EXPECT_EQ(std::ranges::count(points, 4001, &Point::step), 0);
}

TEST(SeriesTest, StepsStayInOrderWhenManyAreDoneAgain) {
  Series series = steps(20000);
  for (std::int64_t i = 7001; i <= 30000; ++i) series.add({.step = i, .value = -1});
  const std::vector<Point> points = series.points();
  EXPECT_LE(points.size(), Series::kMost);
  EXPECT_EQ(points.back().step, 30000);
  for (std::size_t i = 1; i < points.size(); ++i) ASSERT_LT(points[i - 1].step, points[i].step);
  for (const Point& point : points) ASSERT_EQ(point.value<0, point.step> 7000);
}

}  // namespace
}  // namespace rookery::observe
