#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "base/task.h"

namespace rookery {

class Alarm;
class Clock;

using Duration = std::chrono::nanoseconds;
using Time = std::chrono::time_point<Clock, Duration>;  // since the clock's start
inline constexpr Time kNever = Time::max();

// Time as the protocol sees it: the wall clock's, or that of the virtual world. Protocol code asks no other.
// Confined to its executor.
class Clock {
 public:
  virtual ~Clock();  // alarms that are set never ring
  Clock(const Clock&) = delete;
  Clock& operator=(const Clock&) = delete;

  virtual Time now() const = 0;  // never goes back

  // Seconds since 1970, as a calendar has them. May jump, and differ between computers: only for what people agree on,
  // such as when a ticket expires.
  virtual std::chrono::sys_seconds date() const = 0;

  Task<> sleep_until(Time when);
  Task<> sleep_for(Duration duration) { return sleep_until(now() + duration); }

  const Executor& executor() const { return executor_; }

 protected:
  explicit Clock(Executor executor) : executor_(std::move(executor)) {}

  // When the next alarm is due; kNever if none is set.
  Time next_due() const { return alarms_.empty() ? kNever : alarms_.front().when; }

  // Rings the first alarm if it is due by `now`. False if none is.
  bool ring_one(Time now);

 private:
  friend class Alarm;

  // Alarms of the same time ring in the order in which they were set.
  struct Due {
    Time when;
    std::uint64_t order;
    Alarm* alarm;

    bool operator<(const Due& other) const { return when != other.when ? when < other.when : order < other.order; }
  };

  virtual void next_due_changed() = 0;

  void add(Time when, Alarm& alarm);
  void remove(std::size_t at);
  void settle(std::size_t at, const Due& due);  // at this place, or where it belongs above or below
  void put(std::size_t at, const Due& due);

  Executor executor_;
  std::vector<Due> alarms_;  // a heap: none is due before the one at (its place - 1) / 4, and each knows its place
  std::uint64_t set_so_far_ = 0;
};

// Calls a function once, at a time. Confined to the clock's executor; of no use after the clock's end.
class Alarm {
 public:
  explicit Alarm(Clock& clock) : clock_(clock) {}
  ~Alarm() { cancel(); }
  Alarm(const Alarm&) = delete;
  Alarm& operator=(const Alarm&) = delete;

  // Replaces what was set before. `ring` is called from the executor, never from within set(); it may set the alarm
  // again, but not destroy it.
  void set(Time when, std::function<void()> ring);
  void cancel();

 private:
  friend class Clock;

  Clock& clock_;
  bool is_set_ = false;
  std::size_t at_ = 0;  // its place in the clock's heap, if it is set
  std::function<void()> ring_;
};

}  // namespace rookery
