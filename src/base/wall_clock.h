#pragma once

#include <memory>

#include "base/clock.h"

namespace rookery {

// The real world's time: monotonic, from 0 at construction. Alarms ring while somebody runs the executor.
class WallClock final : public Clock {
 public:
  explicit WallClock(Executor executor);
  ~WallClock() override;

  Time now() const override;
  std::chrono::sys_seconds date() const override;

 private:
  struct Timer;

  void next_due_changed() override;

  std::chrono::steady_clock::time_point start_;
  std::shared_ptr<Timer> timer_;  // shared with its pending wait, which may come after the clock's end
};

}  // namespace rookery
