#pragma once

#include <optional>

#include "base/signal.h"
#include "pipeline/border.h"

namespace rookery::pipeline {

// A stage's way to its neighbours. Micro-batches are numbered from 0, and come in that order in both directions. How
// many are on their way is bounded by the schedule: a stage sends no more forward than it has got back, but for its
// limit.
//
// Confined to the executor of whoever computes.
class Borders {
 public:
  virtual ~Borders() = default;

  // Sends to the next stage, or back to the previous one; keeps the border until it is sent. Does not wait.
  virtual void send_forward(Border border) = 0;
  virtual void send_backward(Border border) = 0;

  // The next one that came from the previous stage, or back from the next one; nothing if none is there. Throws
  // LinkError once a neighbour is lost.
  virtual std::optional<Border> take_forward() = 0;
  virtual std::optional<Border> take_backward() = 0;

  // Notified when something has come, or a neighbour is lost.
  virtual Signal& changed() = 0;
};

}  // namespace rookery::pipeline
