#pragma once

#include <vector>

#include "base/clock.h"
#include "base/task.h"

namespace rookery {

// Where coroutines wait for something to change. It has no memory, so a condition is checked first, and again after
// every return:
//
//   while (inbox.empty()) co_await arrived.wait();
//
// Confined to the executor of those who wait. They are resumed by post, never from within notify(); those who still
// wait when the signal goes are resumed, too, and must not touch it then.
class Signal {
 public:
  Signal() = default;
  ~Signal() { notify(); }
  Signal(const Signal&) = delete;
  Signal& operator=(const Signal&) = delete;

  // Returns after the next notify(). Others may be notified for other reasons, so this may return early.
  Task<> wait();

  // The same, but returns at `deadline` at the latest. False if that has come.
  Task<bool> wait_until(Clock& clock, Time deadline);

  // Resumes all who wait now.
  void notify();

 private:
  using Waiter = boost::asio::async_result<boost::asio::use_awaitable_t<Executor>, void()>::handler_type;

  std::vector<Waiter> waiters_;
};

}  // namespace rookery
