#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/task.h"
#include "pipeline/borders.h"
#include "train/compute.h"

namespace rookery::train {

// Parameters that two stages of a cluster use. The earlier stage owns them; the other one has replicas, whose gradients
// travel to the owner before every update, and whose values come back after it. Both ends call the same in the same
// order. Lives on the compute thread.
class Tie {
 public:
  // `way`: to the other stage, which is the next one for the owner and the previous one for the replica. Way and
  // compute outlive this.
  Tie(Tied tied, pipeline::Borders& way, Compute& compute);

  // Gradients before this one are not complete until they are gathered; 0 if the other stage owns them.
  std::size_t incomplete_until() const;

  // Before an update: the replica's gradients go to the owner, which waits for them and adds them to its own.
  Task<> gather_gradients();

  // When the values have changed: they go to the replica. With `waits` it has them afterwards; else it takes the newest
  // that have come.
  Task<> spread_values(bool waits);

 private:
  pipeline::Border gathered(std::span<const float> flat, std::uint64_t number) const;
  Task<pipeline::Border> next(std::optional<pipeline::Border> (pipeline::Borders::*take)());
  std::span<const float> content_of(const pipeline::Border& border) const;
  void take_values(const pipeline::Border& border);

  Tied tied_;
  pipeline::Borders& way_;
  Compute& compute_;
  std::size_t values_ = 0;                   // in all ranges
  std::uint64_t gathered_ = 0, spread_ = 0;  // messages so far
  std::uint64_t values_taken_ = 0;           // the number after that of the newest one
};

}  // namespace rookery::train
