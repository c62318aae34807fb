#include "base/virtual_world.h"

#include <boost/asio/co_spawn.hpp>

#include "base/error.h"
#include "base/units.h"

namespace rookery {

VirtualWorld::VirtualWorld() : io_(std::make_unique<boost::asio::io_context>(1)), clock_(io_->get_executor()) {}

VirtualWorld::~VirtualWorld() {
  if (run(clock_.now() + std::chrono::minutes(1))) return;
  (void)io_.release();  // tasks are left that refer to the clock, and must not be destroyed after it
}

void VirtualWorld::settle() {
  io_->restart();
  remember(io_->poll());
}

bool VirtualWorld::advance(Time limit) {
  const Time first = clock_.next_due();
  if (first == kNever || first > limit) return false;
  const Time last = std::min(first + slack_, limit);
  do {
    clock_.now_ = std::max(clock_.now_, clock_.next_due());
    clock_.ring_one(clock_.now_);
    ++events_;
    remember(static_cast<std::uint64_t>(clock_.now_.time_since_epoch().count()));
  } while (slack_ > Duration{} && clock_.next_due() <= last);
  settle();
  return true;
}

void VirtualWorld::remember(std::uint64_t what) {
  constexpr std::uint64_t kPrime = 0x100000001b3;  // FNV-1a, by words
  trace_ = (trace_ ^ what) * kPrime;
}

bool VirtualWorld::run(Time limit) {
  settle();
  while (advance(limit)) continue;
  if (clock_.next_due() == kNever) return true;
  clock_.now_ = limit;
  return false;
}

void VirtualWorld::run(Task<> task, Time limit) {
  struct Outcome {
    bool ended = false;
    std::exception_ptr failure;
  };
  const auto outcome = std::make_shared<Outcome>();  // the task may outlive this call
  boost::asio::co_spawn(*io_, std::move(task), [outcome](std::exception_ptr failure) {
    outcome->ended = true;
    outcome->failure = failure;
  });
  settle();
  while (!outcome->ended && advance(limit)) continue;
  if (!outcome->ended) {
    throw Error("the virtual world came to rest after {}, and a task still waits",
                format_duration(clock_.now().time_since_epoch()));
  }
  if (outcome->failure) std::rethrow_exception(outcome->failure);
}

}  // namespace rookery
