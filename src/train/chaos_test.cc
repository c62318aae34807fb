#include "train/chaos.h"

#include <limits>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace rookery::train {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

std::string refusal(const std::string& text) {
  try {
    parse_chaos(text);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(ChaosTest, IsWrittenInWords) {
  EXPECT_EQ(parse_chaos("kill 0.02/s, freeze 0.01/s, rejoin 30s, thaw 5s"),
            (ChaosOptions{.kills = 0.02, .freezes = 0.01, .rejoin = 30s, .thaw = 5s}));
  EXPECT_EQ(parse_chaos("cut 3/s"), (ChaosOptions{.cuts = 3, .rejoin = 10s, .thaw = 20s}));
  EXPECT_EQ(parse_chaos("freeze 1/s"), (ChaosOptions{.freezes = 1, .rejoin = 10s, .thaw = 20s}));
  EXPECT_EQ(parse_chaos("rejoin 0s,kill 2/s"), (ChaosOptions{.kills = 2, .rejoin = 0s, .thaw = 20s}));
}

TEST(ChaosTest, BlowsCanBeAppointed) {
  const Blow cut{.at = 2.5, .kind = Blow::Kind::kCut, .peer = 0}, kill{.at = 20, .kind = Blow::Kind::kKill, .peer = 3};
  const ChaosOptions options = parse_chaos("kill 3 at 20s, cut 0 at 2500ms, rejoin 1s");
  EXPECT_EQ(options, (ChaosOptions{.appointed = {cut, kill}, .rejoin = 1s, .thaw = 20s}));
  ChaosSchedule schedule(options, 4, 1);
  EXPECT_EQ(schedule.next(), cut);
  schedule.pass();
  EXPECT_EQ(schedule.next(), kill);
  schedule.pass();
  EXPECT_EQ(schedule.next().at, std::numeric_limits<double>::infinity());
}

TEST(ChaosTest, AppointmentsComeBesideWhatIsDrawn) {
  const ChaosOptions random{.kills = 1};
  ChaosOptions both = random;
  both.appointed = {{.at = 3, .kind = Blow::Kind::kFreeze, .peer = 1}, {.at = 50, .peer = 2}};
  ChaosSchedule schedule(both, 4, 7), alone(random, 4, 7);
  std::vector<Blow> appointed;
  for (double last = 0; last < 60; last = schedule.next().at, schedule.pass()) {
    EXPECT_GE(schedule.next().at, last);
    if (schedule.next() == alone.next()) {
      alone.pass();
    } else {
      appointed.push_back(schedule.next());
    }
  }
  EXPECT_EQ(appointed, both.appointed);
}

TEST(ChaosTest, MistakesGetASentence) {
  EXPECT_THAT(refusal(""), HasSubstr("there is no ''"));
  EXPECT_THAT(refusal("kil 1/s"), HasSubstr("did you mean"));
  EXPECT_THAT(refusal("kill 1"), HasSubstr("is no rate"));
  EXPECT_THAT(refusal("kill -1/s"), HasSubstr("is no rate"));
  EXPECT_THAT(refusal("kill often"), HasSubstr("is no rate"));
  EXPECT_THAT(refusal("kill 1/s, kill 2/s"), HasSubstr("twice"));
  EXPECT_THAT(refusal("kill 1/s, rejoin soon"), HasSubstr("soon"));
  EXPECT_THAT(refusal("rejoin 5s"), HasSubstr("nothing would happen"));
  EXPECT_THAT(refusal("kill me at 5s"), HasSubstr("names no peer"));
  EXPECT_THAT(refusal("kill 1 at once"), HasSubstr("once"));
  EXPECT_THROW(ChaosSchedule(parse_chaos("kill 4 at 1s"), 4, 1), InputError);
}

TEST(ChaosTest, BlowsFollowFromTheSeed) {
  const ChaosOptions options{.kills = 0.3, .freezes = 0.06, .cuts = 0.04};
  ChaosSchedule one(options, 4, 7), same(options, 4, 7), other(options, 4, 8);
  bool differs = false;
  std::size_t kills = 0, cuts = 0;
  std::set<std::size_t> hit;
  constexpr std::size_t kMany = 4000;
  double last = 0;
  for (std::size_t i = 0; i < kMany; ++i, one.pass(), same.pass(), other.pass()) {
    EXPECT_EQ(one.next(), same.next());
    EXPECT_GE(one.next().at, last);
    last = one.next().at;
    differs = differs || !(one.next() == other.next());
    kills += one.next().kind == Blow::Kind::kKill ? 1 : 0;
    cuts += one.next().kind == Blow::Kind::kCut ? 1 : 0;
    hit.insert(one.next().peer);
  }
  EXPECT_TRUE(differs);
  EXPECT_EQ(hit, (std::set<std::size_t>{0, 1, 2, 3}));
  EXPECT_NEAR(static_cast<double>(kills) / kMany, 0.75, 0.05);
  EXPECT_NEAR(static_cast<double>(cuts) / kMany, 0.1, 0.03);
  EXPECT_NEAR(last / kMany, 1 / 0.4, 0.15);
}

}  // namespace
}  // namespace rookery::train
