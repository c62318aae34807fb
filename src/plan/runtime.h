#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plan/partition.h"
#include "plan/segments.h"
#include "plan/swarm.h"

namespace rookery::plan {

// The runtime model: how long a step would take. docs/runtime-model.md has the equations.

// How the copies of a model stay one.
enum class Method { kNone, kAllReduce, kGossip, kLocalSgd, kDiloco, kPalsgd };

// Throws InputError if there is none of this name.
Method parse_method(std::string_view name);
std::string_view name_of(Method method);

constexpr bool is_local(Method method) {
  return method == Method::kLocalSgd || method == Method::kDiloco || method == Method::kPalsgd;
}

// What matters of a method as far as time goes. Steps are those of a run.
struct MethodOptions {
  Method method = Method::kAllReduce;
  double value_bytes = 4;         // that a parameter takes on its way
  std::uint64_t interval = 50;    // of local methods: steps between the rounds of a fragment,
  std::uint64_t delay = 0;        // that a round has until it is needed,
  std::uint64_t fragments = 1;    // and parts that have rounds of their own
  std::uint64_t warmup = 0;       // of diloco and palsgd: steps with all-reduce, in the beginning
  double pull_probability = 0;    // of palsgd
  std::string topology = "auto";  // of gossip
  bool waits = false;             // of gossip: adapt, then combine
  std::size_t group = 16;         // the most members of a ring
  double consensus = 1;           // of gossip

  bool operator==(const MethodOptions&) const = default;
};

// Its name, and what a plan may choose of it: "diloco, H = 32".
std::string described(const MethodOptions& method);

// The topology that "auto" stands for.
std::string topology_for(const std::string& name, std::size_t clusters);

// How many gradients are averaged at a time: as many as links like, but in several pieces, so that the first are on
// their way while backward goes on.
std::size_t bucket_of(std::size_t values);

// What a plan is to be good at: the time to a loss, for which a sample counts as much as it teaches, or samples as
// such.
enum class Goal { kLoss, kSamples };

// What is trained.
struct Job {
  ModelProfile model{};
  Keeping keeping{};
  double samples = 1;  // of a cluster in a step
  std::uint64_t steps = 300;
  bool clips = true;  // gradients, by the norm of the whole model
  std::uint64_t seed = 1;
  Goal goal = Goal::kLoss;
};

// Who would do what.
struct Candidate {
  std::vector<std::vector<std::size_t>> clusters{};  // their peers, by stage. Rings go from one cluster to the next
  std::vector<Partition> partitions{};               // of each
  ScheduleOptions schedule{};
  MethodOptions method{};
};

// How it would go.
struct Prediction {
  double step_seconds = 0;           // mean of all steps
  double compute_seconds = 0;        // mean of all peers
  double exposed_share = 0;          // of the peers' time, in which they wait
  double round_seconds = 0;          // that averaging the model once takes, whether anybody waits for it or not
  double samples_per_second = 0;     // of all clusters
  std::vector<double> bytes_sent{};  // by each peer in a step: borders and rounds, without headers
  std::vector<Bytes> memory{};       // of each peer

  double all_bytes_sent() const;
};

// Deterministic: what varies is drawn from the job's seed.
// Requires: every cluster has a partition with as many stages.
Prediction predict(const Job& job, const Swarm& swarm, const Candidate& candidate);

}  // namespace rookery::plan
