#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/units.h"

namespace rookery::observe {

// What happened in one step: a line of metrics.jsonl.
struct StepMetrics {
  std::int64_t step = 0;     // counts from 1
  double loss = 0;           // mean over clusters
  double seconds = 0;        // since the run started
  double step_seconds = 0;   // of this step alone
  std::int64_t samples = 0;  // cumulative
  std::int64_t tokens = 0;   // cumulative
  double lr = 0;
  double grad_norm = 0;  // before clipping
  std::optional<double> eval_loss{}, eval_accuracy{};

  // In a swarm, where the times above are those of the slowest peer.
  struct Together {
    double compute_seconds = 0;   // mean over peers
    double wait_seconds = 0;      // for others; mean over peers
    std::int64_t bytes_sent = 0;  // in this step by all peers, evaluations and checkpoints apart
    std::int64_t bytes_received = 0;
  };
  std::optional<Together> together{};
  std::optional<double> consensus_distance{};   // of the copies, at evaluations
  std::optional<double> drift{};                // of a copy from what was agreed last, mean over copies; now and then
  std::optional<std::int64_t> staleness_max{};  // updates between a forward and the use of its gradient, in pipelines
};

// What a peer reports when a run ends.
struct PeerSummary {
  std::string name;
  Bytes peak_memory_bytes = 0;
  Bytes own_memory_bytes = 0;         // of that, what the program took before it held any layer
  double busy_share = 0;              // of the wall time, spent computing
  std::optional<double> eval_loss{};  // of its own copy, if that is not the others'
  std::optional<std::int64_t> bytes_sent{};
  std::optional<double> wait_seconds{};  // for others

  // If it had some layers of the model, in a cluster with others.
  struct Stage {
    std::int64_t cluster = 0, stage = 0;
    std::int64_t begin = 0, end = 0;                                 // layers
    double waited_forward_seconds = 0, waited_backward_seconds = 0;  // for something to compute forward, for gradients
    std::vector<std::int64_t> staleness{};                           // micro-batches with 0, 1, … updates in between
    std::int64_t versions = 0;                                       // of the weights in memory, at most
    std::optional<Bytes> planned_memory_bytes{};                     // beside what the program itself takes
  };
  std::optional<Stage> stage{};
};

// Steps of one cluster.
struct ClusterSteps {
  std::int64_t cluster = 0;
  std::int64_t first_step = 0, last_step = 0;

  bool operator==(const ClusterSteps&) const = default;
};

// Steps that were done again, because a stage was lost and its cluster went back to a copy: so were their samples.
struct Repeated {
  std::int64_t first_step = 0, last_step = 0;

  bool operator==(const Repeated&) const = default;
};

// How a swarm trained: what its settings said, and its plan decided where they said "auto".
struct Arrangement {
  std::int64_t clusters = 0;
  std::string schedule{}, method{};
  std::optional<std::int64_t> interval{};  // of methods that have one
  std::optional<std::string> topology{};   // of gossip
};

// How a run ended: summary.json.
struct Summary {
  double final_loss = 0;
  std::optional<double> eval_loss{}, eval_accuracy{};
  std::optional<double> test_loss{}, test_accuracy{};
  std::optional<double> entropy_floor{};  // the least loss that any model can have on this data
  std::int64_t steps = 0;
  std::int64_t samples = 0;
  std::int64_t tokens = 0;
  double tokens_per_second = 0;
  double samples_per_second = 0;
  double wall_seconds = 0;
  Bytes peak_memory_bytes = 0;  // of the largest peer
  std::int64_t parameters = 0;
  std::vector<PeerSummary> peers{};

  // In a swarm.
  std::optional<Arrangement> arrangement{};             // once there was a plan
  std::optional<std::int64_t> bytes_sent{};             // by all peers, evaluations and checkpoints apart
  std::optional<std::int64_t> payload_bytes_sent{};     // of those, without headers
  std::optional<double> exposed_communication_share{};  // of the peers' time, spent waiting for others
  std::optional<std::int64_t> rounds{};
  std::int64_t rounds_failed = 0;                  // and were left out, of all peers
  std::optional<double> consensus_distance{};      // of the copies before they were made one at the end
  std::optional<bool> identical_copies{};          // after that, to the last bit
  std::vector<std::string> expelled{};             // peers that brought nonsense to rounds; left out if there are none
  std::optional<double> predicted_step_seconds{};  // before the first step
  std::optional<double> measured_step_seconds{};
  std::optional<std::int64_t> samples_left_out{};  // in these steps; not said where pulls take the place of steps
  std::vector<ClusterSteps> left_out{};   // that it did not do, as it had lost a peer: their samples were not used
  std::vector<ClusterSteps> forgotten{};  // that it did, and lost a peer before the others knew what they had taught it
  std::vector<Repeated> repeated{};
};

// One member per field, under the field's name, in the order above. Optional fields without a value are left out;
// numbers that are not finite become null; the others are written so that reading gives the same number.
nlohmann::ordered_json to_json(const StepMetrics& metrics);
nlohmann::ordered_json to_json(const Summary& summary);

// Where metrics go. The methods are called by one thread, steps in ascending order, but for those that are repeated.
class Sink {
 public:
  virtual ~Sink() = default;
  virtual void step(const StepMetrics& metrics) = 0;
  virtual void finish(const Summary& summary) = 0;  // at most once, after the last step
};

// Passes everything on to several sinks, in the order in which they were added.
class Sinks : public Sink {
 public:
  void add(std::unique_ptr<Sink> sink) { sinks_.push_back(std::move(sink)); }

  void step(const StepMetrics& metrics) override;
  void finish(const Summary& summary) override;

 private:
  std::vector<std::unique_ptr<Sink>> sinks_;
};

}  // namespace rookery::observe
