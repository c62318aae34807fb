#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/task.h"
#include "pipeline/borders.h"
#include "train/stage.h"

namespace rookery::train {

// Parameters that two stages of a cluster use. The earlier stage owns them; the other one has replicas, whose gradients
// travel to the owner before every update, and whose values come back after it. Both ends call the same in the same
// order. Lives on the compute thread.
class Tie {
 public:
  enum class End { kOwner, kReplica };

  // `way`: to the other stage, which is the next one for the owner and the previous one for the replica. `names`: of
  // the parameters, the same at both ends. Way and stage outlive this.
  Tie(End end, pipeline::Borders& way, Stage& stage, const std::vector<std::string>& names);

  // Before an update: the replica's gradients go to the owner, which waits for them and adds them to its own.
  Task<> gather_gradients();

  // When the values have changed: they go to the replica. With `waits` it has them afterwards; else it takes the newest
  // that have come.
  Task<> spread_values(bool waits);

 private:
  at::Tensor gathered(const at::Tensor& flat) const;
  Task<pipeline::Border> next(std::optional<pipeline::Border> (pipeline::Borders::*take)());
  void take_values(const pipeline::Border& border);

  End end_;
  pipeline::Borders& way_;
  Stage& stage_;
  std::vector<ParameterRange> ranges_;                          // in the owner's store, or among the replicas
  std::uint64_t gathered_ = 0, spread_ = 0, values_taken_ = 0;  // messages so far
};

}  // namespace rookery::train
