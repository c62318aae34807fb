#pragma once

#include <functional>
#include <utility>

#include "base/clock.h"

namespace rookery::collective::internal {

// Notices when something that has begun to move stops moving for too long.
class StallWatch {
 public:
  StallWatch(Clock& clock, Duration limit) : clock_(clock), limit_(limit), alarm_(clock) {}

  // Something has moved. From the first time on, `stalled` is called once nothing has for the limit. Cheap.
  void moved(const std::function<void()>& stalled) {
    moved_ = clock_.now();
    if (stalled_) return;
    stalled_ = stalled;
    watch();
  }

 private:
  void watch() {
    alarm_.set(moved_ + limit_, [this] { clock_.now() < moved_ + limit_ ? watch() : stalled_(); });
  }

  Clock& clock_;
  Duration limit_;
  Time moved_{};
  std::function<void()> stalled_;
  Alarm alarm_;
};

}  // namespace rookery::collective::internal
