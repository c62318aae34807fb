#include "sync/internal/start_round.h"

#include <future>
#include <optional>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>

#include "base/signal.h"

namespace rookery::sync::internal {
namespace {

// What a round shares with whoever waits for it. Confined to its home, but for `over`.
struct Running {
  bool ended = false;
  std::exception_ptr failure;
  Signal changed;
  std::optional<Span> span;  // of whoever starts it, and then of the clock's executor
  std::promise<void> over;   // for whoever cannot wait in a task; set last, on the clock's executor
};

class Handle final : public Round {
 public:
  Handle(Clock& clock, Executor home, std::shared_ptr<Running> running, std::function<void()> give_up)
      : clock_(clock), home_(std::move(home)), running_(std::move(running)), give_up_(std::move(give_up)) {}

  // The memory is the caller's again when this returns, so it waits for the network.
  ~Handle() override {
    if (running_->ended) return;
    if (home_ == clock_.executor()) {
      give_up_();
      return;
    }
    boost::asio::post(clock_.executor(), std::move(give_up_));
    running_->over.get_future().wait();
  }

  bool has_ended() const override { return running_->ended; }

  Task<> finish() override {
    const auto running = running_;
    while (!running->ended) {
      auto wait = running->changed.wait();
      co_await std::move(wait);
    }
    if (running->failure) std::rethrow_exception(running->failure);
  }

 private:
  Clock& clock_;
  Executor home_;
  std::shared_ptr<Running> running_;
  std::function<void()> give_up_;
};

}  // namespace

std::unique_ptr<Round> start_round(Clock& clock, Executor home, Task<> task, Watched watched,
                                   std::function<void()> give_up) {
  const auto running = std::make_shared<Running>();
  running->span.emplace(watched.watch, watched.what, watched.segment);
  boost::asio::co_spawn(clock.executor(), std::move(task), [running, home](std::exception_ptr failure) {
    running->span.reset();
    boost::asio::post(home, [running, failure] {
      running->ended = true;
      running->failure = failure;
      running->changed.notify();
    });
    running->over.set_value();
  });
  return std::make_unique<Handle>(clock, std::move(home), running, std::move(give_up));
}

}  // namespace rookery::sync::internal
