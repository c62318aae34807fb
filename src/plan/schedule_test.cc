#include "plan/schedule.h"

#include <algorithm>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/random.h"

namespace rookery::plan {
namespace {

std::vector<ScheduleOptions> for_all(ScheduleOptions options, std::size_t stages) {
  return std::vector<ScheduleOptions>(stages, options);
}

// The share of [0, end] in which a stage computes.
double busy(const std::vector<PlannedAction>& actions, std::size_t stage) {
  double worked = 0, end = 0;
  for (const PlannedAction& action : actions) {
    end = std::max(end, action.end);
    if (action.stage == stage) worked += action.end - action.begin;
  }
  return worked / end;
}

TEST(Schedule, NamesAreThoseOfTheSettings) {
  for (const char* name : {"gpipe", "1f1b", "async"}) EXPECT_EQ(name_of(parse_schedule(name)), name);
  try {
    parse_schedule("asink");
    FAIL();
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("did you mean 'async'"));
  }
}

TEST(Schedule, GpipeDoesAllForwardsThenAllBackwards) {
  const ScheduleOptions options{.schedule = Schedule::kGpipe, .micro_batches = 3};
  const auto actions = timeline(for_all(options, 1), {{}}, 1);
  std::string order;
  for (const PlannedAction& a : actions) order += "FBU"[static_cast<int>(a.action)];
  EXPECT_EQ(order, "FFFBBBU");
}

// Bubble of gpipe: (N-1)/(M+N-1) of the time.
TEST(Schedule, GpipesBubbleIsAsPublished) {
  for (const std::size_t stages : {2, 3, 4, 8}) {
    for (const std::uint64_t micro_batches : {1, 4, 7}) {
      const ScheduleOptions options{.schedule = Schedule::kGpipe, .micro_batches = micro_batches};
      const auto actions = timeline(for_all(options, stages), std::vector<ActionTimes>(stages), 5);
      const auto n = static_cast<double>(stages), m = static_cast<double>(micro_batches);
      for (std::size_t i = 0; i < stages; ++i) EXPECT_NEAR(busy(actions, i), m / (m + n - 1), 1e-9);
    }
  }
}

TEST(Schedule, OneForwardOneBackwardKeepsFewerThanGpipeAndTakesNoLonger) {
  constexpr std::size_t kStages = 4;
  const ScheduleOptions one{.schedule = Schedule::k1f1b, .micro_batches = 8};
  const auto actions = timeline(for_all(one, kStages), std::vector<ActionTimes>(kStages), 3);
  std::map<std::size_t, std::size_t> on_their_way, most;
  for (const PlannedAction& a : actions) {
    if (a.action == Action::kForward) ++on_their_way[a.stage];
    if (a.action == Action::kBackward) --on_their_way[a.stage];
    most[a.stage] = std::max(most[a.stage], on_their_way[a.stage]);
  }
  for (std::size_t i = 0; i < kStages; ++i) {
    EXPECT_EQ(most[i], kStages - i);
    EXPECT_EQ(most[i], in_flight(one, {i, kStages}));
  }
  const ScheduleOptions gpipe{.schedule = Schedule::kGpipe, .micro_batches = 8};
  const auto others = timeline(for_all(gpipe, kStages), std::vector<ActionTimes>(kStages), 3);
  EXPECT_NEAR(busy(actions, 0), busy(others, 0), 1e-9);
}

TEST(Schedule, AsyncHasNoBubbleOnceItIsFull) {
  constexpr std::size_t kStages = 4;
  std::vector<ScheduleOptions> options;
  for (std::size_t i = 0; i < kStages; ++i) {
    options.push_back({.schedule = Schedule::kAsync, .micro_batches = 4, .in_flight = kStages - i + 3});
  }
  const std::vector<ActionTimes> times(kStages, {.send_forward = 0.75, .send_backward = 0.75});
  const auto actions = timeline(options, times, 100);
  const double end = std::ranges::max(actions, {}, &PlannedAction::end).end;
  for (std::size_t i = 0; i < kStages; ++i) {
    double worked = 0;
    for (const PlannedAction& a : actions) {
      if (a.stage == i) {
        worked += std::max(0.0, std::min(a.end, 0.9 * end) - std::max(a.begin, 0.1 * end));
      }
    }
    EXPECT_GT(worked / (0.8 * end), 0.99) << "stage " << i;
  }
}

// Two slow stages between two fast ones, over links that take a while, with as many on their way as a round trip takes:
// if each stage went through all backwards that wait before any forward, they would starve each other in turn.
TEST(Schedule, AsyncDoesNotComeInWaves) {
  constexpr std::size_t kStages = 4;
  constexpr std::uint64_t kSteps = 60, kMicroBatches = 4;
  const std::vector<std::size_t> limits = {7, 6, 5, 1};
  std::vector<ScheduleOptions> options;
  for (const std::size_t limit : limits) {
    options.push_back({.schedule = Schedule::kAsync, .micro_batches = kMicroBatches, .in_flight = limit});
  }
  for (const double latency : {0.2, 0.35, 0.5}) {
    std::vector<ActionTimes> times(kStages);
    for (std::size_t i = 0; i < kStages; ++i) {
      const double share = i == 1 || i == 2 ? 1 : 0.5;
      times[i] = {.forward = 0.35 * share, .backward = 0.65 * share, .send_forward = 0.08, .send_backward = 0.08};
      times[i].latency_forward = times[i].latency_backward = latency;
    }
    const auto actions = timeline(options, times, kSteps);
    const double end = std::ranges::max(actions, {}, &PlannedAction::end).end;
    EXPECT_LT(end, 1.1 * (kSteps * kMicroBatches)) << "latency " << latency;
  }
}

// Whatever the times: every micro-batch goes forward once and back once in order, everything is updated, nobody keeps
// more than its limit, and no gradient is older than its bound.
TEST(Schedule, KeepsItsBoundsWhateverActionsTake) {
  Random random({3});
  for (int trial = 0; trial < 300; ++trial) {
    const std::size_t stages = 1 + random.below(6);
    const std::uint64_t frequency = 1 + random.below(3);
    ScheduleOptions common{.schedule = static_cast<Schedule>(random.below(3)),
                           .micro_batches = frequency * (1 + random.below(4)),
                           .update_frequency = frequency};
    std::vector<ScheduleOptions> options;
    std::vector<ActionTimes> times;
    for (std::size_t i = 0; i < stages; ++i) {
      common.in_flight = random.below(7);
      options.push_back(common);
      times.push_back({random.uniform(), random.uniform(), random.uniform(), random.uniform(), random.uniform()});
    }
    const std::uint64_t steps = 1 + random.below(5), total = steps * common.micro_batches;
    std::vector<Agenda> agendas;
    for (std::size_t i = 0; i < stages; ++i) agendas.emplace_back(options[i], StagePlace{i, stages});
    std::map<std::pair<std::size_t, std::uint64_t>, std::uint64_t> version;  // of each forward
    for (const PlannedAction& a : timeline(options, times, steps)) {
      Agenda& agenda = agendas[a.stage];
      const StagePlace place{a.stage, stages};
      if (a.action == Action::kForward) {
        EXPECT_EQ(a.micro_batch, agenda.forwards());
        version[{a.stage, a.micro_batch}] = agenda.updates();
      } else if (a.action == Action::kBackward) {
        EXPECT_EQ(a.micro_batch, agenda.backwards());
        EXPECT_LE(agenda.updates() - version[std::pair(a.stage, a.micro_batch)],
                  staleness_bound(options[a.stage], place));
      }
      agenda.done(a.action);
      EXPECT_LE(agenda.forwards() - agenda.backwards(), in_flight(options[a.stage], place));
    }
    for (const Agenda& agenda : agendas) {
      EXPECT_TRUE(agenda.is_idle());
      EXPECT_EQ(agenda.backwards(), total);
    }
  }
}

TEST(Schedule, CanBeDrawn) {
  const ScheduleOptions options{.schedule = Schedule::k1f1b, .micro_batches = 2};
  const auto actions = timeline(for_all(options, 2), std::vector<ActionTimes>(2, ActionTimes{1, 1, 0, 0, 0}), 1);
  EXPECT_EQ(draw(actions, 2, 1),
            "stage 0    0    1    .   (0)   .   (1)|\n"
            "stage 1    .    0   (0)   1   (1)|\n");
}

}  // namespace
}  // namespace rookery::plan
