#pragma once

#include <string>
#include <string_view>

#include "plan/profile.h"
#include "plan/schedule.h"

namespace rookery::plan {

// Which weights the backward of a micro-batch uses.
//
//   stash      exactly those of its forward: an update leaves them where they are for as long as somebody needs them
//   latest     those that there are; a micro-batch that was forwarded before an update has a slightly wrong gradient
//   recompute  those that there are, and the forward is done again with them: only the inputs are kept on the way
enum class Versions { kStash, kLatest, kRecompute };

// Throws InputError if there are none of this name.
Versions parse_versions(std::string_view name);
std::string_view name_of(Versions versions);

// What is kept of each parameter and micro-batch.
struct Keeping {
  Versions versions = Versions::kStash;
  std::size_t optimizer_values = 2;  // per parameter
  std::size_t method_values = 0;     // per parameter: anchor, outer momentum, what is sent, what a codec owes

  bool operator==(const Keeping&) const = default;
};

// What a stage takes, in bytes.
struct StageMemory {
  Bytes weights = 0;    // and the replicas of other stages' parameters
  Bytes gradients = 0;  // the same
  Bytes optimizer = 0;
  Bytes method = 0;
  Bytes versions = 0;     // older weights that micro-batches on their way still need, at most
  Bytes activations = 0;  // of all micro-batches on their way
  Bytes borders = 0;      // that have come, or are to be sent

  Bytes total() const { return weights + gradients + optimizer + method + versions + activations + borders; }
  bool operator==(const StageMemory&) const = default;
};

// Of the stage with these layers at this place of a pipeline.
StageMemory stage_memory(const ModelProfile& model, Layers layers, const ScheduleOptions& options, StagePlace place,
                         const Keeping& keeping);

}  // namespace rookery::plan
