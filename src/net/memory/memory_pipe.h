#pragma once

#include <memory>
#include <utility>

#include "base/clock.h"
#include "net/line.h"
#include "net/pipe.h"

namespace rookery::net {

// A pipe within the process: two ends on one executor, and a line for each direction.
class MemoryPipe : public Pipe {
 public:
  // Nothing that this end sends arrives while it is cut. The other direction has its own.
  virtual void set_cut(bool cut) = 0;
};

using MemoryPipes = std::pair<std::unique_ptr<MemoryPipe>, std::unique_ptr<MemoryPipe>>;

// `there` carries what the first end sends.
MemoryPipes make_memory_pipes(Clock& clock, std::shared_ptr<Line> there, std::shared_ptr<Line> back);

// Over lines without limits.
MemoryPipes make_memory_pipes(Clock& clock);

}  // namespace rookery::net
