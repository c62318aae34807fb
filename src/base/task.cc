#include "base/task.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>

#include "base/signal.h"

namespace rookery {

namespace asio = boost::asio;

Task<> yield() { co_await asio::post(kAwaitable); }

struct TaskGroup::State {
  explicit State(Executor e) : executor(std::move(e)) {}

  Executor executor;
  std::size_t running = 0;
  std::exception_ptr failure;
  Signal ended;
};

TaskGroup::TaskGroup(Executor executor) : state_(std::make_shared<State>(std::move(executor))) {}

void TaskGroup::spawn(Task<> task) {
  ++state_->running;
  asio::co_spawn(state_->executor, std::move(task), [state = state_](std::exception_ptr failure) {
    --state->running;
    if (failure && !state->failure) state->failure = failure;
    state->ended.notify();
  });
}

Task<> TaskGroup::join() {
  const auto state = state_;  // the group may go while this waits
  while (state->running > 0) co_await state->ended.wait();
  if (state->failure) std::rethrow_exception(std::exchange(state->failure, nullptr));
}

std::size_t TaskGroup::running() const { return state_->running; }

}  // namespace rookery
