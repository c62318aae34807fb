#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plan/profile.h"

namespace rookery::plan {

// In which order the stages of a cluster take micro-batches forward and back. N stages, M micro-batches in a step:
//
//   gpipe  all forwards of the step, then all backwards, one update. Idle for (N-1)/(M+N-1) of the time; keeps M
//          micro-batches
//   1f1b   as many forwards as there are stages from here on, then one backward and one forward in turns; the same
//          update. Keeps at most N-i micro-batches at stage i
//   async  never waits for a step's end: a backward if one has come, else a forward as long as fewer than L_i
//          micro-batches are on their way; an update after every `update_frequency` backwards
enum class Schedule { kGpipe, k1f1b, kAsync };

// Throws InputError if there is none of this name.
Schedule parse_schedule(std::string_view name);
std::string_view name_of(Schedule schedule);

// Whether a step's gradients all belong to the same weights.
constexpr bool is_synchronous(Schedule schedule) { return schedule != Schedule::kAsync; }

enum class Action { kForward, kBackward, kUpdate };

// Where a stage is in a pipeline.
struct StagePlace {
  std::size_t stage = 0, stages = 1;

  bool is_first() const { return stage == 0; }
  bool is_last() const { return stage + 1 == stages; }
};

struct ScheduleOptions {
  Schedule schedule = Schedule::k1f1b;
  std::uint64_t micro_batches = 1;     // of a step
  std::uint64_t update_frequency = 1;  // of `async`: backwards to an update. Divides micro_batches
  std::size_t in_flight = 0;           // of `async`: L_i, micro-batches on their way from here; 0: N-i

  // Backwards that an update takes, and updates that a step has.
  std::uint64_t group() const { return is_synchronous(schedule) ? micro_batches : update_frequency; }
  std::uint64_t updates() const { return micro_batches / group(); }
};

// The most micro-batches of which a stage has done the forward and not yet the backward.
std::size_t in_flight(const ScheduleOptions& options, StagePlace place);

// The most updates that a stage makes between a micro-batch's forward and the use of its gradient:
// ⌈(L_i-1)/update_frequency⌉ in `async`, none in the others.
std::uint64_t staleness_bound(const ScheduleOptions& options, StagePlace place);

// What one stage does, action by action. Micro-batches are numbered through, from one step to the next, and are taken
// in that order in both directions. A value; whoever carries it out says what has come.
class Agenda {
 public:
  Agenda(ScheduleOptions options, StagePlace place);

  // The next thing to do, if `forwards` inputs and `backwards` gradients have come since the beginning; nothing if it
  // has to wait for more of them. On the first stage inputs come as they are asked for; on the last a gradient comes
  // with its forward.
  std::optional<Action> next(std::uint64_t forwards, std::uint64_t backwards) const;

  // It was done.
  void done(Action action);

  std::uint64_t forwards() const { return forwards_; }  // done, and so the number of the next
  std::uint64_t backwards() const { return backwards_; }
  std::uint64_t updates() const { return updates_; }

  // Nothing is on its way and nothing is left to update.
  bool is_idle() const;

 private:
  bool may_forward() const;

  ScheduleOptions options_;
  std::size_t limit_;
  std::uint64_t forwards_ = 0, backwards_ = 0, updates_ = 0;
  bool was_backward_ = false;  // what it did last
};

// One action of a stage, as it would go.
struct PlannedAction {
  std::size_t stage = 0;
  Action action{};
  std::uint64_t micro_batch = 0;  // of an update: the last one that it takes in
  double begin = 0, end = 0;      // seconds
};

// What actions take at one stage, in seconds.
struct ActionTimes {
  double forward = 1, backward = 2, update = 0;
  double send_forward = 0, send_backward = 0;  // that a border takes on the way to the next, and the previous, stage;
  double latency_forward = 0, latency_backward = 0;  // others wait for it, and so much later it is there
  bool one_card = false;                             // both ways share what can be sent
};

// How `steps` steps would go, in the order in which actions begin. `options` of each stage differ in `in_flight` only.
// `variation`: each action takes up to such a share more or less, at random, but always the same.
// Requires: as many of both as there are stages.
std::vector<PlannedAction> timeline(const std::vector<ScheduleOptions>& options, const std::vector<ActionTimes>& times,
                                    std::uint64_t steps, double variation = 0);

// A picture of a timeline for a terminal: a row for each stage, a column for each `column` seconds, and in it the
// micro-batch that is worked on. Forwards are numbers, backwards numbers in parentheses, and updates follow as '|'.
std::string draw(const std::vector<PlannedAction>& actions, std::size_t stages, double column);

}  // namespace rookery::plan
