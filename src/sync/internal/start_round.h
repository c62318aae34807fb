#pragma once

#include <functional>
#include <memory>

#include "base/clock.h"
#include "base/span.h"
#include "sync/rounds.h"

namespace rookery::sync::internal {

// What is said about a round to whoever watches.
struct Watched {
  const BeginSpan& watch;
  const char* what;
  std::uint64_t segment;
};

// A round as a task on the clock's executor; whoever starts it, and waits for it, may live on another one, its home.
// `give_up`, on the clock's executor: makes the task end soon; called if whoever started it lets go of it before.
std::unique_ptr<Round> start_round(Clock& clock, Executor home, Task<> task, Watched watched,
                                   std::function<void()> give_up);

}  // namespace rookery::sync::internal
