#include "base/clock.h"

#include <algorithm>
#include <map>
#include <memory>
#include <vector>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/loop_thread.h"
#include "base/random.h"
#include "base/signal.h"
#include "base/virtual_world.h"
#include "base/wall_clock.h"

namespace rookery {
namespace {

using namespace std::chrono_literals;

TEST(VirtualWorldTest, TimePassesOnlyBetweenEvents) {
  VirtualWorld world;
  std::vector<std::pair<int, Time>> seen;
  const auto sleeper = [&](int name, Duration nap) -> Task<> {
    for (int i = 0; i < 2; ++i) {
      co_await world.clock().sleep_for(nap);
      seen.emplace_back(name, world.clock().now());
    }
  };
  TaskGroup group(world.executor());
  group.spawn(sleeper(1, 3h));
  group.spawn(sleeper(2, 2h));

  world.run(group.join());

  const std::vector<std::pair<int, Time>> expected = {{2, Time(2h)}, {1, Time(3h)}, {2, Time(4h)}, {1, Time(6h)}};
  EXPECT_EQ(seen, expected);
  EXPECT_EQ(world.clock().now(), Time(6h));
}

TEST(VirtualWorldTest, AlarmsOfOneMomentRingInTheOrderTheyWereSet) {
  VirtualWorld world;
  std::vector<int> rung;
  Alarm a(world.clock()), b(world.clock()), c(world.clock());
  a.set(Time(1s), [&] { rung.push_back(1); });
  b.set(Time(1s), [&] { rung.push_back(2); });
  c.set(Time(1s), [&] { rung.push_back(3); });
  a.set(Time(1s), [&] { rung.push_back(4); });  // anew, so it is the last
  b.cancel();

  EXPECT_TRUE(world.run());

  EXPECT_EQ(rung, (std::vector{3, 4}));
}

TEST(VirtualWorldTest, StopsAtALimitAndGoesOn) {
  VirtualWorld world;
  bool rung = false;
  Alarm alarm(world.clock());
  alarm.set(Time(10s), [&] { rung = true; });

  EXPECT_FALSE(world.run(Time(9s)));
  EXPECT_EQ(world.clock().now(), Time(9s));
  EXPECT_FALSE(rung);
  EXPECT_TRUE(world.run());
  EXPECT_TRUE(rung);
}

TEST(VirtualWorldTest, ATaskThatWaitsForWhatNeverComesIsReported) {
  VirtualWorld world;
  Signal never;
  EXPECT_THROW(world.run(never.wait()), Error);
  never.notify();
  world.run();
}

TEST(SignalTest, ADeadlineEndsTheWaitAndANotificationEndsItSooner) {
  VirtualWorld world;
  Signal signal;
  const auto wait = [&](Time deadline, bool expected, Time end) -> Task<> {
    auto waiting = signal.wait_until(world.clock(), deadline);
    const bool notified = co_await std::move(waiting);
    EXPECT_EQ(notified, expected);
    EXPECT_EQ(world.clock().now(), end);
  };
  world.run(wait(Time(5s), false, Time(5s)));

  Alarm alarm(world.clock());
  alarm.set(Time(7s), [&] { signal.notify(); });
  world.run(wait(Time(9s), true, Time(7s)));
  world.run(wait(Time(1s), false, Time(7s)));  // past already
}

TEST(TaskGroupTest, JoinWaitsForAllAndThrowsWhatTheFirstThrew) {
  VirtualWorld world;
  int ended = 0;
  const auto fail = [&](Duration after, const char* text) -> Task<> {
    co_await world.clock().sleep_for(after);
    ++ended;
    throw Error("{}", text);
  };
  TaskGroup group(world.executor());
  group.spawn(fail(2s, "second"));
  group.spawn(fail(1s, "first"));
  try {
    world.run(group.join());
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "first");
  }
  EXPECT_EQ(ended, 2);
  EXPECT_EQ(group.running(), 0u);
}

TEST(WallClockTest, AlarmsRingInOrderAndNotBeforeTheirTime) {
  boost::asio::io_context io;
  WallClock clock(io.get_executor());
  std::vector<int> rung;
  const Time start = clock.now();
  Alarm late(clock), early(clock), cancelled(clock);
  late.set(start + 3ms, [&] { rung.push_back(2); });
  early.set(start + 1ms, [&] {
    rung.push_back(1);
    EXPECT_GE(clock.now(), start + 1ms);
  });
  cancelled.set(start + 2ms, [&] { rung.push_back(3); });
  cancelled.cancel();
  io.run();
  EXPECT_EQ(rung, (std::vector{1, 2}));
  EXPECT_GE(clock.now(), start + 3ms);
}

TEST(LoopThreadTest, TasksRunThereAndResultsComeBack) {
  boost::asio::io_context here;
  LoopThread there;
  std::thread::id ran_on, returned_on;
  int result = 0;
  const auto square = [&](int x) -> Task<int> {
    co_await there.clock().sleep_for(1ms);
    ran_on = std::this_thread::get_id();
    if (x < 0) throw Error("no");
    co_return x* x;
  };
  const auto ask = [&]() -> Task<> {
    auto asking = there.run(square(7));
    result = co_await std::move(asking);
    returned_on = std::this_thread::get_id();
    bool failed = false;
    try {
      auto again = there.run(square(-1));
      co_await std::move(again);
    } catch (const Error&) {
      failed = true;
    }
    EXPECT_TRUE(failed);
  };
  boost::asio::co_spawn(here, ask(), boost::asio::detached);
  here.run();
  EXPECT_EQ(result, 49);
  EXPECT_NE(ran_on, std::this_thread::get_id());
  EXPECT_EQ(returned_on, std::this_thread::get_id());
}

// However many are set, set again and cancelled, those that are left ring by their times, and in the order of setting.
TEST(AlarmTest, ThoseThatAreLeftRingInOrder) {
  VirtualWorld world;
  Random random({1, word_of("alarms")});
  std::vector<std::unique_ptr<Alarm>> alarms;
  for (std::size_t i = 0; i < 300; ++i) alarms.push_back(std::make_unique<Alarm>(world.clock()));
  std::map<std::size_t, std::pair<Time, std::size_t>> due;  // by alarm: when, and the how manieth that was set
  std::vector<std::size_t> rung;
  for (std::size_t turn = 0; turn < 5000; ++turn) {
    const std::size_t which = random.below(alarms.size());
    if (random.below(3) == 0) {
      alarms[which]->cancel();
      due.erase(which);
    } else {
      const Time when(std::chrono::milliseconds(1 + random.below(50)));
      alarms[which]->set(when, [&rung, which] { rung.push_back(which); });
      due[which] = {when, turn};
    }
  }
  std::vector<std::size_t> expected;
  for (const auto& [which, ignored] : due) expected.push_back(which);
  std::ranges::sort(expected, {}, [&](std::size_t which) { return due[which]; });
  world.run();
  EXPECT_EQ(rung, expected);
}

}  // namespace
}  // namespace rookery
