#include "base/real_world.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/steady_timer.hpp>
#include <spdlog/spdlog.h>

#include "base/error.h"
#include "base/units.h"

namespace rookery {
namespace {

using SteadyTime = std::chrono::steady_clock::time_point;

SteadyTime time_after(Duration limit) {
  const SteadyTime now = std::chrono::steady_clock::now();
  return limit > SteadyTime::max() - now ? SteadyTime::max() : now + limit;
}

}  // namespace

RealWorld::RealWorld()
    : io_(std::make_unique<boost::asio::io_context>(1)), clock_(std::make_unique<WallClock>(io_->get_executor())) {}

RealWorld::~RealWorld() {
  const SteadyTime deadline = time_after(std::chrono::seconds(5));
  io_->restart();
  while (!io_->stopped() && std::chrono::steady_clock::now() < deadline) io_->run_one_until(deadline);
  if (io_->stopped()) return;
  spdlog::error("tasks were still running when the program ended");
  (void)io_.release();  // they refer to a clock that is about to go, and must not be destroyed after it
}

void RealWorld::run(Task<> task, Duration limit) {
  struct Outcome {
    bool ended = false;
    std::exception_ptr failure;
  };
  const auto outcome = std::make_shared<Outcome>();  // the task may outlive this call
  boost::asio::co_spawn(*io_, std::move(task), [outcome, this](std::exception_ptr failure) {
    outcome->ended = true;
    outcome->failure = failure;
    io_->stop();
  });
  // A plain run() is faster than one that looks at the time before every handler.
  boost::asio::steady_timer timer(*io_, time_after(limit));
  timer.async_wait([this](const boost::system::error_code& cancelled) {
    if (!cancelled) io_->stop();
  });
  io_->restart();
  io_->run();
  if (!outcome->ended) throw Error("a task had not ended after {}", format_duration(limit));
  if (outcome->failure) std::rethrow_exception(outcome->failure);
}

}  // namespace rookery
