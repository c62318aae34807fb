#pragma once

#include <functional>
#include <memory>
#include <thread>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>

#include "base/wall_clock.h"

namespace rookery {

// A thread with a loop of its own: where a peer computes while its network goes on.
class LoopThread {
 public:
  LoopThread();
  ~LoopThread();  // waits for what still runs. Requires: nobody waits for anything that will not come
  LoopThread(const LoopThread&) = delete;
  LoopThread& operator=(const LoopThread&) = delete;

  Clock& clock() { return *clock_; }
  Executor executor() { return io_.get_executor(); }

  // Runs a task there; whoever awaits this stays where it is, and gets what the task returns or throws.
  template <typename T>
  Task<T> run(Task<T> task) {
    return boost::asio::co_spawn(io_, std::move(task), kAwaitable);
  }

  // The same for what is no task: work that takes long.
  Task<> call(std::function<void()> work);

 private:
  boost::asio::io_context io_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> stays_{io_.get_executor()};
  std::unique_ptr<WallClock> clock_;
  std::thread thread_;
};

}  // namespace rookery
