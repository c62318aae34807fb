#include "base/wall_clock.h"

#include <boost/asio/steady_timer.hpp>

namespace rookery {

struct WallClock::Timer : std::enable_shared_from_this<Timer> {
  Timer(WallClock* c, const Executor& executor) : clock(c), timer(executor) {}

  // Rings what is due, then waits for what is next. Setting the expiry cancels the wait before.
  void wait() {
    timer.expires_at(clock->start_ + clock->next_due().time_since_epoch());
    timer.async_wait([self = shared_from_this()](const boost::system::error_code& cancelled) {
      if (cancelled || self->clock == nullptr) return;
      // One round of what is due now: an alarm that sets itself again must not keep the loop from the network.
      const Time now = self->clock->now();
      while (self->clock->ring_one(now)) continue;
      self->clock->next_due_changed();
    });
  }

  WallClock* clock;  // nullptr after its end
  boost::asio::steady_timer timer;
};

WallClock::WallClock(Executor executor)
    : Clock(std::move(executor)),
      start_(std::chrono::steady_clock::now()),
      timer_(std::make_shared<Timer>(this, this->executor())) {}

WallClock::~WallClock() {
  timer_->clock = nullptr;
  timer_->timer.cancel();
}

Time WallClock::now() const {
  return Time(std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now() - start_));
}

std::chrono::sys_seconds WallClock::date() const {
  return std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
}

void WallClock::next_due_changed() {
  next_due() != kNever ? timer_->wait() : static_cast<void>(timer_->timer.cancel());
}

}  // namespace rookery
