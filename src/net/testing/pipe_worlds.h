#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/clock.h"
#include "net/pipe.h"

namespace rookery::net::testing {

using PipePair = std::pair<std::unique_ptr<Pipe>, std::unique_ptr<Pipe>>;

// Somewhere to try a kind of pipe: a clock, a loop, and connected pairs.
class PipeWorld {
 public:
  virtual ~PipeWorld() = default;

  virtual Clock& clock() = 0;
  virtual PipePair connect() = 0;

  // Runs a task to its end, and everything else meanwhile. Throws what the task throws, and Error if it takes longer
  // than any test should.
  virtual void run(Task<> task) = 0;

  Executor executor() { return clock().executor(); }
};

// Every kind of pipe there is, by name. The contract suites run on all of them.
struct PipeKind {
  std::string name;
  std::function<std::unique_ptr<PipeWorld>()> make;
};
const std::vector<PipeKind>& pipe_kinds();

inline std::string name_of(const ::testing::TestParamInfo<PipeKind>& info) { return info.param.name; }

}  // namespace rookery::net::testing
