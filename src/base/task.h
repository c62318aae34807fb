#pragma once

#include <exception>
#include <memory>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace rookery {

// What tasks run on: the loop of a network thread, or the virtual world. Its type is known, so that resuming a task
// costs little.
using Executor = boost::asio::io_context::executor_type;

// A coroutine of the protocol. It starts when it is awaited (or spawned), runs on one executor, and reports failure by
// throwing.
template <typename T = void>
using Task = boost::asio::awaitable<T, Executor>;

// What makes an operation of Asio one that a task can await.
inline constexpr boost::asio::use_awaitable_t<Executor> kAwaitable;

// Lets everything else that is ready on the executor run first.
Task<> yield();

// Tasks that run at the same time and end together: whoever starts them waits for them.
//
//   TaskGroup group(executor);
//   group.spawn(read());
//   group.spawn(write());
//   co_await group.join();
//
// Confined to the executor. The group may go before its tasks have ended; then nobody learns how they ended.
class TaskGroup {
 public:
  explicit TaskGroup(Executor executor);

  // Starts the task; its first step runs later, by post.
  void spawn(Task<> task);

  // Waits until all tasks have ended. Throws what the first of them that failed threw; telling the others to stop is
  // up to that task.
  Task<> join();

  std::size_t running() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace rookery
