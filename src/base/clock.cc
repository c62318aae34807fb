#include "base/clock.h"

#include "base/signal.h"

namespace rookery {

// Tasks that nobody ran to their end are destroyed with the executor, and their alarms with them: after the clock.
Clock::~Clock() {
  for (const auto& [key, alarm] : alarms_) alarm->is_set_ = false;
}

bool Clock::ring_one(Time now) {
  if (next_due() > now) return false;
  Alarm& alarm = *alarms_.begin()->second;
  alarms_.erase(alarms_.begin());
  alarm.is_set_ = false;
  const auto ring = std::move(alarm.ring_);
  ring();
  return true;
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
  at_ = clock_.alarms_.emplace(Clock::Key(when, clock_.set_so_far_++), this).first;
  if (at_ == clock_.alarms_.begin()) clock_.next_due_changed();
}

void Alarm::cancel() {
  if (!is_set_) return;
  is_set_ = false;
  const bool was_next = at_ == clock_.alarms_.begin();
  clock_.alarms_.erase(at_);
  if (was_next) clock_.next_due_changed();
}

}  // namespace rookery
