#pragma once

#include <memory>

#include <boost/asio/io_context.hpp>

#include "base/wall_clock.h"

namespace rookery {

// A loop and the wall clock, for one thread: what VirtualWorld is to tests, this is to a program.
class RealWorld {
 public:
  RealWorld();

  // Lets what is closing come to its end, for a few seconds at most. Whoever lives in the world is gone by now, or
  // closed.
  ~RealWorld();
  RealWorld(const RealWorld&) = delete;
  RealWorld& operator=(const RealWorld&) = delete;

  Clock& clock() { return *clock_; }
  Executor executor() { return io_->get_executor(); }
  boost::asio::io_context& io() { return *io_; }

  // Starts a task, and runs until it has ended; everything else goes on meanwhile. Throws what the task throws, and
  // Error if that takes longer than `limit`.
  void run(Task<> task, Duration limit = Duration::max());

 private:
  std::unique_ptr<boost::asio::io_context> io_;
  std::unique_ptr<WallClock> clock_;
};

}  // namespace rookery
