#include "base/clock.h"

#include <algorithm>

#include "base/signal.h"

namespace rookery {

namespace {
constexpr std::size_t kBranches = 4;  // of the heap: flat, so that little memory is touched
}

// Tasks that nobody ran to their end are destroyed with the executor, and their alarms with them: after the clock.
Clock::~Clock() {
  for (const Due& due : alarms_) due.alarm->is_set_ = false;
}

bool Clock::ring_one(Time now) {
  if (next_due() > now) return false;
  Alarm& alarm = *alarms_.front().alarm;
  remove(0);
  alarm.is_set_ = false;
  const auto ring = std::move(alarm.ring_);
  ring();
  return true;
}

void Clock::add(Time when, Alarm& alarm) {
  const Due due{when, set_so_far_++, &alarm};
  alarms_.push_back(due);
  settle(alarms_.size() - 1, due);
}

void Clock::remove(std::size_t at) {
  const Due last = alarms_.back();
  alarms_.pop_back();
  if (at < alarms_.size()) settle(at, last);
}

void Clock::settle(std::size_t at, const Due& due) {
  for (; at > 0 && due < alarms_[(at - 1) / kBranches]; at = (at - 1) / kBranches) {
    put(at, alarms_[(at - 1) / kBranches]);
  }
  for (std::size_t first = at * kBranches + 1; first < alarms_.size(); first = at * kBranches + 1) {
    const auto begin = alarms_.begin() + static_cast<std::ptrdiff_t>(first);
    const auto next =
        std::min_element(begin, begin + static_cast<std::ptrdiff_t>(std::min(kBranches, alarms_.size() - first)));
    if (due < *next) break;
    put(at, *next);
    at = static_cast<std::size_t>(next - alarms_.begin());
  }
  put(at, due);
}

void Clock::put(std::size_t at, const Due& due) {
  alarms_[at] = due;
  due.alarm->at_ = at;
}

Task<> Clock::sleep_until(Time when) {
  Signal never;
  bool awake = now() >= when;
  while (!awake) {
    auto wait = never.wait_until(*this, when);
    awake = !co_await std::move(wait);
  }
}

void Alarm::set(Time when, std::function<void()> ring) {
  cancel();
  ring_ = std::move(ring);
  is_set_ = true;
  clock_.add(when, *this);
  if (at_ == 0) clock_.next_due_changed();
}

void Alarm::cancel() {
  if (!is_set_) return;
  is_set_ = false;
  clock_.remove(at_);
  if (at_ == 0) clock_.next_due_changed();
}

}  // namespace rookery
