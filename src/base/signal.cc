#include "base/signal.h"

#include <boost/asio/post.hpp>

namespace rookery {

namespace asio = boost::asio;

Task<> Signal::wait() {
  auto start = [this](Waiter waiter) { waiters_.push_back(std::move(waiter)); };
  return asio::async_initiate<const asio::use_awaitable_t<Executor>, void()>(start, kAwaitable);
}

Task<bool> Signal::wait_until(Clock& clock, Time deadline) {
  if (clock.now() >= deadline) co_return false;
  Alarm alarm(clock);
  if (deadline != kNever) alarm.set(deadline, [this] { notify(); });
  auto waiting = wait();
  co_await std::move(waiting);
  co_return clock.now() < deadline;
}

void Signal::notify() {
  for (Waiter& waiter : waiters_) asio::post(std::move(waiter));
  waiters_.clear();
}

}  // namespace rookery
