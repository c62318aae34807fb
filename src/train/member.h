#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "pipeline/stage_runner.h"
#include "sync/method.h"
#include "sync/rounds.h"
#include "train/compute.h"
#include "train/make_method.h"
#include "train/passing.h"
#include "train/tie.h"
#include "wire/swarm_message.h"

namespace rookery::train {

// What all copies together are worth.
struct Evaluation {
  LossReport report;              // of the average of all copies, over the same samples in every run
  double consensus_distance = 0;  // ‖x_i − x̄‖, root mean square over the copies
};

// A segment that a peer holds, and with whom it averages it: those who hold it in the other clusters.
struct Ring {
  std::size_t segment = 0;  // its number
  plan::Layers layers;
  Place place;
  sync::Rounds* rounds = nullptr;  // for the method, with as many slots as it needs
  sync::Rounds* exact = nullptr;   // for evaluations and checkpoints, uncompressed, with Member::exact_slots()
};

// How a stage is connected with the others of its cluster.
struct ClusterConnections {
  sync::Rounds* rounds = nullptr;            // of all its stages, with one slot
  pipeline::Borders* training = nullptr;     // to the neighbours
  pipeline::Borders* evaluations = nullptr;  // the same for evaluations
  std::vector<Tie> ties{};                   // parameters that other stages use, too
};

// How a member is connected with the others. What it names outlives the member.
struct Connections {
  std::vector<Ring> rings;   // of its segments, in the order of layers
  std::size_t segments = 1;  // that the model has in all
  ClusterConnections cluster{};
};

// One peer's part in a swarm: a stage of one copy of the model, which may be all of it. It takes the steps of its
// schedule, and does its part in what keeps the copies one model.
//
// A step is `train.batch` samples of every cluster. Synchronous schedules make one update of it, `async` one after
// every `update_frequency` micro-batches. Each update, and each pull in the place of one, is a turn: what the method
// counts as a step.
//
// Lives on the compute thread, whose executor is the clock's.
class Member final : private pipeline::StageWork {
 public:
  // Of rounds that are not part of training. Where peers come and go, each occasion has slots of its own.
  static std::size_t exact_slots(bool changing);

  // Whether a slot is for averages of copies, where peers come and go; else it is for sums of something else.
  static bool averages_copies(std::size_t slot);

  // Throws InputError if this swarm cannot have the method.
  Member(Clock& clock, Compute& compute, plan::StagePlace stage, plan::ScheduleOptions schedule,
         Connections connections);

  // Goes on after steps that were done, and samples that all clusters together have used. Before the first step.
  // Requires: with a method that pulls, as many clusters as before, and the same batch.
  void resume(std::int64_t steps_done, std::int64_t samples_done);

  // Where peers come and go. What whoever holds the same segment in another cluster begins with: the values of one of
  // the rings, by its place among them. `equal`: copies are, and moments and buffers come along.
  std::vector<std::span<float>> handed_on(std::size_t ring, bool equal = false);
  bool has_agreed() const { return method_->has_agreed(); }

  // What handed_on() has of each ring where copies are not equal, if others can borrow it; else nothing.
  std::vector<std::shared_ptr<const sync::Lendable>> lends() const { return method_->lends(); }

  // The cluster begins again, with what was handed on to all rings of all its stages, and with other connections among
  // them. What was on its way is forgotten. On all its stages; throws LinkError if one is lost. Requires: run() is not
  // under way.
  struct Start {
    std::int64_t steps = 0;    // that were done,
    std::int64_t samples = 0;  // and samples that all clusters together have used, or left out
    bool equal = false;        // as in handed_on()
  };
  Task<> begin_again(Start start, ClusterConnections cluster);

  // What it does is watched from now on.
  void watch(BeginSpan actions) {
    watch_ = actions;
    runner_.watch(std::move(actions));
  }

  // Takes steps until `until` are done, or the gate lets no other begin; each is reported when it is done. What it sent
  // and received is for whoever has the links to say. Before and after, nothing is on its way in the pipeline.
  //
  // Throws LinkError if a peer is lost: the parameters are then those after the last update.
  using Gate = std::function<pipeline::Admission(std::uint64_t step)>;  // whether this one (from 1) may begin
  using Report = std::function<void(const wire::StepReport&)>;
  Task<> run(std::int64_t until, Gate gate, Report report);

  // The gate may have changed its mind.
  void wake() {
    if (is_running_) runner_.wake();  // else its ways to others may not be there yet
  }

  std::int64_t steps_done() const { return static_cast<std::int64_t>(turn_ / turns_per_step()); }
  sync::Method& method() { return *method_; }
  const std::vector<Ring>& rings() const { return connections_.rings; }
  const pipeline::StageRecord& record() const { return runner_.record(); }
  std::size_t most_versions() const { return versions_; }  // of the weights that were in memory, with the current ones

  // Evaluates the average of all copies; each cluster does its share of the samples, and all get the same result.
  // Leaves the copy as it is. Nothing if a peer was told to stop on the way.
  Task<std::optional<Evaluation>> evaluate(data::Split split, std::uint64_t samples,
                                           const std::atomic<bool>* stop = nullptr);

  // The same of this copy alone.
  Task<std::optional<LossReport>> evaluate_own(data::Split split, std::uint64_t samples,
                                               const std::atomic<bool>* stop = nullptr);

  // Ends what is under way.
  Task<> settle();

  // Makes every copy the average of all. After settle().
  Task<> agree();

  // What the copy is, segment by segment: with equal parameters and buffers, equal.
  std::vector<wire::SegmentDigest> digests();

  // Whether all stages of this cluster say yes. On all of them.
  Task<bool> all_say(bool yes);

  // Shows the average of all copies, for as long as `use` runs, and leaves the copy as it is. On all peers. `last`: at
  // the end of the run.
  Task<> with_average(std::function<void()> use, bool last);

 private:
  // When copies are averaged besides training.
  enum class Occasion { kEvaluation, kTest, kCheckpoint, kLastCheckpoint, kEnd };

  // Values of all rings, and the buffers of all; nothing if they are what they are.
  struct Average {
    std::vector<float> values, buffers;
  };

  pipeline::Admission admit(std::uint64_t micro_batch) override;
  Task<pipeline::Border> forward(pipeline::Border input) override;
  Task<pipeline::Border> backward(pipeline::Border gradients) override;
  Task<> update(std::uint64_t number) override;

  void go_on_after(std::int64_t steps_done, std::int64_t samples_done);
  std::uint64_t turns_per_step() const { return schedule_.updates(); }
  std::uint64_t step_of(std::uint64_t turn) const { return turn / turns_per_step(); }
  std::uint64_t turn_of(std::uint64_t update);
  const Place& place() const { return connections_.rings.front().place; }

  Samples samples_of(std::uint64_t micro_batch) const;
  double divisor(std::uint64_t update);
  bool counts_terms(std::uint64_t turn) const;
  MicroBatch described(std::uint64_t micro_batch);

  sync::Copy copy();
  Around around_update();
  Task<> wait_for(Task<> task);
  void even_out(const std::vector<float>& terms);
  Task<double> clipped(double scale);
  Task<> pull_until(std::uint64_t turn);
  Task<> spread(bool waits);
  Task<> end_turn();
  void report_step(std::uint64_t turn);
  sync::Which exact_round(Occasion occasion, std::size_t what) const;
  Task<Average> average(Occasion occasion, bool skip_equal);
  Task<> sum_over_all(Occasion occasion, std::span<float> numbers);
  void swap_in(Average& average);

  Clock& clock_;
  Compute& compute_;
  plan::StagePlace stage_;
  plan::ScheduleOptions schedule_;
  Connections connections_;
  std::vector<std::span<float>> moments_;  // that are averaged
  std::unique_ptr<sync::Method> method_;
  bool is_running_ = false;
  pipeline::StageRunner runner_;
  Passing passing_;
  Gate gate_;
  Report report_;

  BeginSpan watch_;

  std::uint64_t turn_ = 0;               // turns done
  std::deque<std::uint64_t> turns_;      // of the next updates, as far as they have been looked at
  std::uint64_t updates_ = 0;            // done since the beginning, or the resumption
  std::int64_t first_sample_ = 0;        // of block 0
  std::uint64_t first_micro_batch_ = 0;  // how many there were before the first one of this process

  // Of the step that is under way.
  LossSums sums_;
  double grad_norm_ = 0, lr_ = 0;
  std::uint64_t gradient_turns_ = 0;
  Time step_began_{};
  Duration waited_{}, waited_before_{};
  std::map<std::uint64_t, std::uint64_t> staleness_;  // before it
  std::size_t versions_ = 1;                          // that were in memory, at most

  std::vector<double> squares_before_, squares_after_;  // Σ g² of the stages before and after this one, as last heard
  double squares_ = 0;                                  // and of this one
};

}  // namespace rookery::train
