#include "base/loop_thread.h"

namespace rookery {

LoopThread::LoopThread() : clock_(std::make_unique<WallClock>(io_.get_executor())), thread_([this] { io_.run(); }) {}

LoopThread::~LoopThread() {
  stays_.reset();
  thread_.join();
}

Task<> LoopThread::call(std::function<void()> work) {
  const auto as_task = [](std::function<void()> called) -> Task<> {
    called();
    co_return;
  };
  return run(as_task(std::move(work)));
}

}  // namespace rookery
