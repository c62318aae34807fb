#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "sync/method.h"
#include "sync/rounds.h"
#include "train/make_method.h"
#include "train/pace.h"
#include "train/trainee.h"
#include "wire/swarm_message.h"

namespace rookery::train {

// What all copies together are worth.
struct Evaluation {
  LossReport report;              // of the average of all copies, over the same samples in every run
  double consensus_distance = 0;  // ‖x_i − x̄‖, root mean square over the copies
};

// One copy of the model in a swarm in which every peer holds a whole one: the steps of its trainee, and its part in
// what keeps the copies one model. Lives on the compute thread, whose executor is the clock's.
class Member {
 public:
  // `rounds` carry the method, with as many slots as it needs; `exact` carry evaluations, uncompressed, with
  // kExactSlots. Everything outlives this. Throws InputError if this swarm cannot have the method.
  static constexpr std::size_t kExactSlots = 4;
  Member(Clock& clock, Trainee& trainee, Place place, sync::Rounds& rounds, sync::Rounds& exact);

  // Goes on after steps that were done, and samples that all clusters together have used. Before the first step.
  // Requires: with a method that pulls, as many clusters as before, and the same batch.
  void resume(std::int64_t steps_done, std::int64_t samples_done);

  // From now on steps take as long as the pace says. It outlives this.
  void keep_pace(Pace& pace) { pace_ = &pace; }

  std::int64_t steps_done() const { return step_; }
  sync::Method& method() { return *method_; }

  // The next step; what it sent and received is for whoever has the links to say. Throws LinkError if a peer is lost:
  // the parameters are then those after the last step.
  Task<wire::StepReport> step();

  // Evaluates the average of all copies; each peer does its share of the samples, and all get the same result. Leaves
  // the copy as it is. Nothing if a peer was told to stop on the way.
  Task<std::optional<Evaluation>> evaluate(data::Split split, std::uint64_t samples,
                                           const std::atomic<bool>* stop = nullptr);

  // Ends what is under way.
  Task<> settle();

  // Makes every copy the average of all. After settle().
  Task<> agree();

  // Shows the average of all copies, for as long as `use` runs, and leaves the copy as it is. On all peers.
  Task<> with_average(std::function<void()> use);

 private:
  sync::Copy copy();
  bool terms_vary() const;  // from batch to batch
  Around around_update();
  void keep_pace();
  Task<> wait_for(Task<> task, Duration& waited);
  Task<> average_into(std::vector<float>& values, std::vector<float>& buffers, bool skip_equal);
  void swap_in(std::vector<float>& values, std::vector<float>& buffers);

  Clock& clock_;
  Trainee& trainee_;
  Place place_;
  sync::Rounds& exact_;
  std::vector<std::span<float>> moments_;  // that are averaged
  std::unique_ptr<sync::Method> method_;
  std::int64_t step_ = 0;
  std::int64_t first_sample_ = 0;    // of the block from which
  std::int64_t gradient_steps_ = 0;  // are counted
  Pace* pace_ = nullptr;
};

}  // namespace rookery::train
