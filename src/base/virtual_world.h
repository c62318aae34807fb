#pragma once

#include <memory>

#include <boost/asio/io_context.hpp>

#include "base/clock.h"

namespace rookery {

// A world whose time passes only when nothing is left to do at this moment: the protocol runs as fast as it can be
// computed, and the same way every time. Everything in it runs on the thread that calls run.
class VirtualWorld {
 public:
  VirtualWorld();

  // Lets what is closing come to its end. Whoever lives in the world is gone by now, or closed.
  ~VirtualWorld();

  Clock& clock() { return clock_; }
  Executor executor() { return io_->get_executor(); }

  // From now on alarms that are due within so much of the first one ring before anything follows from any of them, as
  // where the machine has other things to do: what follows from them then happens in turns.
  void be_sluggish(Duration slack) { slack_ = slack; }

  // Runs until nothing can happen any more, or the clock would pass `limit`. Returns false in the latter case; the
  // clock then stands at the limit.
  bool run(Time limit = kNever);

  // Starts a task, and runs until it has ended; everything else goes on meanwhile. Throws what the task throws, and
  // Error if the world comes to rest (or reaches the limit) before: somebody waits for what never comes.
  void run(Task<> task, Time limit = kNever);

  // How many alarms have rung, and a digest of what went on: when each rang, and how many steps followed. Equal for
  // equal runs, and hardly ever for others.
  std::uint64_t events() const { return events_; }
  std::uint64_t trace() const { return trace_; }

 private:
  class VirtualClock final : public Clock {
   public:
    explicit VirtualClock(Executor executor) : Clock(std::move(executor)) {}
    Time now() const override { return now_; }
    std::chrono::sys_seconds date() const override {
      using namespace std::chrono;
      return sys_days(2000y / January / 1) + floor<seconds>(now_.time_since_epoch());
    }
    void next_due_changed() override {}
    using Clock::next_due;
    using Clock::ring_one;

    Time now_{};
  };

  void settle();             // does what can be done now
  bool advance(Time limit);  // rings what is due next, and settles; false if there is nothing by `limit`

  void remember(std::uint64_t what);  // in the trace

  std::unique_ptr<boost::asio::io_context> io_;
  VirtualClock clock_;
  Duration slack_{};
  std::uint64_t events_ = 0;
  std::uint64_t trace_ = 0;
};

}  // namespace rookery
