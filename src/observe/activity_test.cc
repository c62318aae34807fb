#include "observe/activity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rookery::observe {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;
using enum ActivityKind;

TEST(ActivityTest, RemembersWhatWasDoneUntilAsked) {
  double now = 1;
  Activity activity([&] { return now; });
  const BeginSpan computing = activity.computing(), rounds = activity.rounds();
  const auto round = rounds("average", 0);
  {
    const Span span(computing, "forward", 0);
    now = 2;
  }
  {
    const Span waits(computing, "wait for a backward", 0);
    now = 3;
  }
  round();
  EXPECT_THAT(activity.take(),
              ElementsAre(ActivitySpan{kForward, 1, 2}, ActivitySpan{kWait, 2, 3}, ActivitySpan{kRound, 1, 3}));
  EXPECT_THAT(activity.take(), IsEmpty());
}

TEST(ActivityTest, WaitsTakeTheirTimeAwayFromWhatTheyAreWithin) {
  double now = 0;
  Activity activity([&] { return now; });
  const BeginSpan computing = activity.computing();
  {
    const Span update(computing, "update", 0);
    now = 1;
    {
      const Span waits(computing, "wait for others", 0);
      now = 3;
    }
    now = 4;
    {
      const Span waits(computing, "wait for others", 0);  // who have come already
      now += 1e-6;
    }
    const Span other(computing, "evaluation", 0);  // is not shown
    now = 5;
  }
  EXPECT_THAT(activity.take(),
              ElementsAre(ActivitySpan{kUpdate, 0, 1}, ActivitySpan{kWait, 1, 3}, ActivitySpan{kUpdate, 3, 5}));
}

TEST(ActivityTest, TellsWhatStillGoesOn) {
  double now = 0;
  Activity activity([&] { return now; });
  const BeginSpan computing = activity.computing();
  const auto update = computing("update", 0);
  now = 1;
  const auto waits = computing("wait for others", 0);
  now = 2;
  EXPECT_THAT(activity.take(), ElementsAre(ActivitySpan{kUpdate, 0, 1}, ActivitySpan{kWait, 1, 2}));
  now = 3;
  waits();
  now = 4;
  EXPECT_THAT(activity.take(), ElementsAre(ActivitySpan{kWait, 2, 3}, ActivitySpan{kUpdate, 3, 4}));
  now = 5;
  update();
  EXPECT_THAT(activity.take(), ElementsAre(ActivitySpan{kUpdate, 4, 5}));
}

TEST(ActivityTest, SpansMayEndAfterWhatTheyBeganIn) {
  double now = 0;
  Activity activity([&] { return now; });
  const BeginSpan computing = activity.computing();
  const auto update = computing("update", 0), waits = computing("wait", 0);
  now = 1;
  update();
  now = 2;
  waits();
  EXPECT_THAT(activity.take(), ElementsAre(ActivitySpan{kUpdate, 0, 1}));
}

TEST(ActivityTest, HasABound) {
  double now = 0;
  Activity activity([&] { return now; });
  const BeginSpan computing = activity.computing();
  for (int i = 0; i < 10'000; ++i) {
    const Span span(computing, "update", 0);
    now += 1e-3;
  }
  EXPECT_THAT(activity.take(), SizeIs(4096));
}

// Seconds of each kind.
std::array<double, kActivityKinds> sums(const std::vector<ActivitySpan>& spans) {
  std::array<double, kActivityKinds> sums{};
  for (const ActivitySpan& span : spans) sums[static_cast<std::size_t>(span.kind)] += span.end - span.begin;
  return sums;
}

TEST(ThinningTest, FewSpansStayAsTheyAre) {
  Thinning thinned;
  const std::vector<ActivitySpan> spans = {{kForward, 0.5, 0.6}, {kRound, 0.55, 0.9}, {kBackward, 0.6, 0.8}};
  EXPECT_EQ(thinned(spans, 10), spans);
  EXPECT_THAT(thinned({}, 10), IsEmpty());
  EXPECT_THAT(thinned({{kForward, 1, 1}, {kForward, 2, 1}}, 10), IsEmpty());  // took no time
}

TEST(ThinningTest, ManySpansBecomeAsManyAsCanBeSeen) {
  Thinning thinned;
  std::vector<ActivitySpan> spans;
  for (int i = 0; i < 1000; ++i) {  // a millisecond each: for half a second forward mostly, then nothing
    const double at = 10 + i * 1e-3;
    if (i < 500) spans.push_back({kForward, at, at + 1e-3});
  }
  spans.push_back({kUpdate, 10.999, 11});
  EXPECT_THAT(thinned(spans, 20), SizeIs(1));
  EXPECT_NEAR(sums(thinned(spans, 20))[0], 0.5, 0.05);
}

TEST(ThinningTest, SlotsAlternateAsWorkDoes) {
  Thinning thinned;
  std::vector<ActivitySpan> spans;
  for (int i = 0; i < 100; ++i) {
    spans.push_back({i / 10 % 2 == 0 ? kForward : kBackward, i * 0.01, i * 0.01 + 0.01});
  }
  const std::vector<ActivitySpan> few = thinned(spans, 50);
  ASSERT_THAT(few, SizeIs(10));
  for (std::size_t i = 0; i < few.size(); ++i) EXPECT_EQ(few[i].kind, i % 2 == 0 ? kForward : kBackward);
}

// However few can be seen of what comes, and however short the time that is told of at once.
TEST(ThinningTest, EachKindKeepsItsShareOfTheTime) {
  for (const double most_per_second : {4.0, 15.0, 100.0}) {
    Thinning once, again;  // as on the way from a peer to those who look on
    std::array<double, kActivityKinds> before{}, after{};
    for (int second = 0; second < 100; ++second) {
      std::vector<ActivitySpan> spans;
      for (int i = 0; i < 100; ++i) {  // the rest is idle
        const double at = second + 0.01 * i;
        spans.push_back({kForward, at, at + 0.002});
        spans.push_back({kBackward, at + 0.002, at + 0.006});
        spans.push_back({kUpdate, at + 0.006, at + 0.0065});
        spans.push_back({kRound, at + 0.001, at + 0.004});
      }
      const auto few = again(once(spans, 100), most_per_second);
      EXPECT_LE(few.size(), 2 * most_per_second + 2);
      const auto more = sums(spans), seen = sums(few);
      for (std::size_t i = 0; i < kActivityKinds; ++i) before[i] += more[i], after[i] += seen[i];
    }
    for (std::size_t i = 0; i < kActivityKinds; ++i) {
      EXPECT_NEAR(after[i], before[i], 4 / most_per_second) << name_of(static_cast<ActivityKind>(i));
    }
  }
}

TEST(ThinningTest, RoundsAreThinnedByThemselves) {
  Thinning thinned;
  std::vector<ActivitySpan> spans = {{kForward, 0, 1}};
  for (int i = 0; i < 100; ++i) spans.push_back({kRound, i * 0.01, i * 0.01 + 0.009});
  const auto few = thinned(spans, 10);
  EXPECT_EQ(few[0], (ActivitySpan{kForward, 0, 1}));
  EXPECT_LE(few.size(), 11);
  EXPECT_NEAR(sums(few)[static_cast<std::size_t>(kRound)], 0.9, 0.1);
}

TEST(ThinningTest, RoundsAtOnceCountOnce) {
  Thinning thinned;
  std::vector<ActivitySpan> spans;
  for (int i = 0; i < 100; ++i) spans.push_back({kRound, i * 0.01, i * 0.01 + 0.5});
  EXPECT_THAT(thinned(spans, 10), ElementsAre(testing::Field(&ActivitySpan::end, testing::DoubleNear(1.49, 1e-9))));
}

}  // namespace
}  // namespace rookery::observe
