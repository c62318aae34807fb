#pragma once

#include <limits>
#include <optional>
#include <span>

#include "plan/profile.h"
#include "plan/schedule.h"
#include "plan/stage_memory.h"
#include "plan/swarm.h"

namespace rookery::plan {

// A peer that is to hold a stage.
struct Worker {
  double speed = 1;                                         // how much faster than the profile
  std::optional<Bytes> memory{};                            // that it may use for its stage
  double uplink = std::numeric_limits<double>::infinity();  // bytes/s to its neighbours, both together
  Link to_next{}, to_previous{};                            // its neighbours in the pipeline
  std::shared_ptr<const std::vector<LayerTimes>> layers{};  // what each takes here, instead of the profile, at speed 1
  std::optional<double> micro_batch_time{};                 // forward and backward take this long, whatever it holds
};

// The peers of a swarm as stages of one cluster, in this order.
std::vector<Worker> workers_of(const Swarm& swarm, std::span<const std::size_t> peers, std::uint64_t micro_batches);

// What the actions of a micro-batch take a worker that holds these layers.
ActionTimes action_times(const ModelProfile& model, const Worker& worker, Layers layers, Versions versions);

// A model on several peers.
struct Partition {
  Cut cut;                             // by worker
  std::vector<std::size_t> in_flight;  // L_i: micro-batches on their way from each stage
  std::vector<StageMemory> memory;
  double slowest = 0;  // seconds that the slowest stage, or its link, takes for a micro-batch

  bool operator==(const Partition&) const = default;
};

// Cuts the model for these workers, in their order, so that the slowest of all stages and links is as fast as it can
// be, and each stage fits into its worker's memory; of all such cuts the one whose largest stage takes least memory,
// and of those the most even one. Exact, by dynamic programming: O(layers² · workers).
//
// With `async` the number of micro-batches on their way is as large as it takes to keep the slowest stage busy while
// others travel, where there is memory for it: max(N-i, ⌈round trip from stage i / slowest⌉), and a few more if a
// rehearsal shows that actions get into each other's way.
//
// Throws InputError if there are more workers than layers, or the model does not fit: how much is missing, and what
// would fit.
Partition partition(const ModelProfile& model, std::span<const Worker> workers, const ScheduleOptions& options,
                    const Keeping& keeping);

// The same for a cut that is given. Throws InputError if it does not fit.
Partition partition(const ModelProfile& model, std::span<const Worker> workers, const ScheduleOptions& options,
                    const Keeping& keeping, const Cut& cut);

// What `slowest` of the best partition would be, without the rest of it: infinite if there is none.
double fastest(const ModelProfile& model, std::span<const Worker> workers, const ScheduleOptions& options,
               const Keeping& keeping);

}  // namespace rookery::plan
