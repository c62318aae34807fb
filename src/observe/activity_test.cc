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
  EXPECT_THAT(activity.take(), ElementsAre(ActivitySpan{kForward, 1, 2}, ActivitySpan{kRound, 1, 3}));
  EXPECT_THAT(activity.take(), IsEmpty());
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

TEST(ActivityTest, FewSpansStayAsTheyAre) {
  const std::vector<ActivitySpan> spans = {{kForward, 0.5, 0.6}, {kRound, 0.55, 0.9}, {kBackward, 0.6, 0.8}};
  EXPECT_EQ(thinned(spans, 10), spans);
  EXPECT_THAT(thinned({}, 10), IsEmpty());
  EXPECT_THAT(thinned({{kForward, 1, 1}, {kForward, 2, 1}}, 10), IsEmpty());  // took no time
}

TEST(ActivityTest, ManySpansBecomeAsManyAsCanBeSeen) {
  std::vector<ActivitySpan> spans;
  for (int i = 0; i < 1000; ++i) {  // a millisecond each: for half a second forward mostly, then idle mostly
    const double at = 10 + i * 1e-3;
    spans.push_back({kForward, at, at + (i < 500 ? 0.8e-3 : 0.1e-3)});
    if (i < 500) spans.push_back({kUpdate, at + 0.8e-3, at + 1e-3});
  }
  const std::vector<ActivitySpan> few = thinned(spans, 20);
  ASSERT_THAT(few, SizeIs(1));
  EXPECT_EQ(few[0].kind, kForward);
  EXPECT_NEAR(few[0].begin, 10, 0.05);
  EXPECT_NEAR(few[0].end, 10.5, 0.06);
}

TEST(ActivityTest, SlotsAlternateAsWorkDoes) {
  std::vector<ActivitySpan> spans;
  for (int i = 0; i < 100; ++i) {
    spans.push_back({i / 10 % 2 == 0 ? kForward : kBackward, i * 0.01, i * 0.01 + 0.01});
  }
  const std::vector<ActivitySpan> few = thinned(spans, 50);
  ASSERT_THAT(few, SizeIs(10));
  for (std::size_t i = 0; i < few.size(); ++i) EXPECT_EQ(few[i].kind, i % 2 == 0 ? kForward : kBackward);
}

TEST(ActivityTest, RoundsAreThinnedByThemselves) {
  std::vector<ActivitySpan> spans = {{kForward, 0, 1}};
  for (int i = 0; i < 100; ++i) spans.push_back({kRound, i * 0.01, i * 0.01 + 0.009});
  EXPECT_THAT(thinned(spans, 10),
              ElementsAre(ActivitySpan{kForward, 0, 1}, testing::Field(&ActivitySpan::kind, kRound)));
}

}  // namespace
}  // namespace rookery::observe
