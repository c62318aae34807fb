#include "base/loop_thread.h"

namespace rookery {

LoopThread::LoopThread() : clock_(std::make_unique<WallClock>(io_.get_executor())), thread_([this] { io_.run(); }) {}

LoopThread::~LoopThread() {
  stays_.reset();
  thread_.join();
}

}  // namespace rookery
