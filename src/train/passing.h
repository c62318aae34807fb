#pragma once

#include <atomic>
#include <optional>

#include "pipeline/stage_runner.h"
#include "train/learner.h"
#include "train/trainee.h"

namespace rookery::train {

// Samples that go through a pipeline without training: evaluations. Every stage of a cluster calls the same in the same
// order. Lives on the compute thread.
class Passing final : private pipeline::StageWork {
 public:
  // Trainee and borders outlive this.
  Passing(Clock& clock, Trainee& trainee, plan::StagePlace stage, pipeline::Borders& borders);

  // The mean over samples [begin, end) of a split, as far as there are so many; on the last stage, elsewhere nothing of
  // use. Nothing if one of the stages was told to stop.
  Task<std::optional<LossReport>> pass(data::Split split, std::uint64_t begin, std::uint64_t end,
                                       const std::atomic<bool>* stop);

 private:
  pipeline::Admission admit(std::uint64_t) override { return pipeline::Admission::kNow; }
  Task<pipeline::Border> forward(pipeline::Border input) override;
  Task<pipeline::Border> backward(pipeline::Border gradients) override;
  Task<> update(std::uint64_t) override;

  Trainee& trainee_;
  plan::StagePlace stage_;
  pipeline::StageRunner runner_;

  // Of the pass that is under way.
  data::Split split_{};
  std::uint64_t begin_ = 0, end_ = 0, first_ = 0;  // samples; and the number of the first micro-batch
  const std::atomic<bool>* stop_ = nullptr;
  bool stopped_ = false;
  double loss_ = 0, correct_ = 0, terms_ = 0;
};

}  // namespace rookery::train
