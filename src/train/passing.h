#pragma once

#include <atomic>
#include <optional>

#include "pipeline/stage_runner.h"
#include "train/compute.h"
#include "train/learner.h"

namespace rookery::train {

// Samples that go through a pipeline without training: evaluations. Every stage of a cluster calls the same in the same
// order. Lives on the compute thread.
class Passing final : private pipeline::StageWork {
 public:
  // Compute and borders outlive this.
  Passing(Clock& clock, Compute& compute, plan::StagePlace stage, pipeline::Borders& borders);

  // Begins anew with other ways to the neighbours, which outlive this. Requires: nothing passes.
  void restart(pipeline::Borders& borders) { runner_.restart(borders); }

  // The mean over samples [begin, end) of a split, as far as there are so many; on the last stage, elsewhere nothing of
  // use. Nothing if one of the stages was told to stop.
  Task<std::optional<LossReport>> pass(data::Split split, std::uint64_t begin, std::uint64_t end,
                                       const std::atomic<bool>* stop);

 private:
  pipeline::Admission admit(std::uint64_t) override { return pipeline::Admission::kNow; }
  Task<pipeline::Border> forward(pipeline::Border input) override;
  Task<pipeline::Border> backward(pipeline::Border gradients) override;
  Task<> update(std::uint64_t) override;

  Compute& compute_;
  plan::StagePlace stage_;
  pipeline::StageRunner runner_;

  // Of the pass that is under way.
  data::Split split_{};
  std::uint64_t begin_ = 0, end_ = 0, first_ = 0;  // samples; and the number of the first micro-batch
  std::uint64_t samples_ = 1;                      // of a micro-batch: no more than in training
  const std::atomic<bool>* stop_ = nullptr;
  bool stopped_ = false;
  LossSums sums_;
};

}  // namespace rookery::train
