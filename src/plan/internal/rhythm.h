#pragma once

#include <vector>

#include "plan/internal/processors.h"
#include "plan/runtime.h"

namespace rookery::plan::internal {

// How the stages of one cluster go through a step when nobody outside holds them up: their actions are rehearsed by the
// schedule that runs them, with what borders and tied parameters take of the links between them.
class Rhythm {
 public:
  // Job, swarm and candidate outlive this.
  Rhythm(const Job& job, const Swarm& swarm, const Candidate& candidate, const Processors& processors,
         std::size_t cluster);

  // From the begin of a step to that of the next; updates apart if synchronous.
  double step() const { return step_; }

  // Of an asynchronous pipeline: what its first steps take longer than the others.
  double fill() const { return fill_; }

  double longest_update() const { return longest_update_; }

  // Of all stages in a step.
  double busy() const { return busy_; }

  // What follows the last backward of a synchronous step: the norm over the whole model, and the update. The next step
  // begins when the first stage is ready for it, and each other one when something comes to it.
  double after_backward() const { return after_backward_; }

  // When the gradients of a segment from the `from`-th value on are complete: backward goes from the last layer to the
  // first, and the micro-batch that completes them is the last one of the step.
  double ready_at(const Segment& segment, std::size_t from) const;

  // What a stage sends in a step: borders, and what is tied.
  double bytes_sent(std::size_t stage) const { return bytes_sent_[stage]; }

 private:
  // Gradients or values of tied parameters on their way from one stage to another.
  struct TiedTransfer {
    double takes = 0, latency = 0;
    bool shares = false;  // a link, or a card, with the borders that leave in the same direction
  };

  const std::vector<std::size_t>& peers() const { return candidate_.clusters[cluster_]; }
  const Partition& partition() const { return candidate_.partitions[cluster_]; }
  std::vector<Worker> workers() const { return workers_of(swarm_, peers(), candidate_.schedule.micro_batches); }
  double update_of(std::size_t stage, const Processors& processors) const;
  void find_times(const Processors& processors);
  double tied_bytes(std::size_t stage) const;
  TiedTransfer tied_transfer(std::size_t from, std::size_t to, double bytes) const;
  double add_ties();
  void rehearse(double busiest_link);
  void count_bytes();
  double find_after_backward() const;
  double longest_latency() const;

  const Job& job_;
  const Swarm& swarm_;
  const Candidate& candidate_;
  std::size_t cluster_;
  bool synchronous_;
  std::vector<ActionTimes> times_;   // of each stage
  std::vector<double> updates_;      // likewise
  std::vector<double> first_begin_;  // of each stage: when its first forward begins, after the step did,
  std::vector<double> last_begin_;   // and when its last backward does
  std::vector<double> last_end_;
  std::vector<double> bytes_sent_;
  double step_ = 0, fill_ = 0, longest_update_ = 0, busy_ = 0, after_backward_ = 0;
};

}  // namespace rookery::plan::internal
