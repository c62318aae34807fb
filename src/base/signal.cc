#include "base/signal.h"

#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace rookery {

namespace asio = boost::asio;

template <typename Handler>
struct Signal::WaiterOf final : Waiter {
  explicit WaiterOf(Handler h) : handler(std::move(h)) {}
  void resume() override { asio::post(std::move(handler)); }

  Handler handler;
};

Task<> Signal::wait() {
  auto start = [this]<typename Handler>(Handler handler) {
    waiters_.push_back(std::make_unique<WaiterOf<Handler>>(std::move(handler)));
  };
  co_await asio::async_initiate<const asio::use_awaitable_t<>, void()>(start, asio::use_awaitable);
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
  auto waiters = std::move(waiters_);
  waiters_.clear();
  for (const auto& waiter : waiters) waiter->resume();
}

}  // namespace rookery
