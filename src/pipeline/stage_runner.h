#pragma once

#include <map>

#include "base/clock.h"
#include "base/signal.h"
#include "base/span.h"
#include "pipeline/borders.h"
#include "plan/schedule.h"

namespace rookery::pipeline {

// Whether a micro-batch may begin its way through a stage.
enum class Admission {
  kNow,
  kLater,  // the runner is woken when that may have changed
  kNever,  // this one and all that follow, in this run
};

// What a stage computes. Real stages do it at once and return when it is done; modelled ones let time pass.
class StageWork {
 public:
  virtual ~StageWork() = default;

  virtual Admission admit(std::uint64_t micro_batch) = 0;

  // Outputs of a micro-batch for the next stage; the last stage keeps them, and returns nothing of use. `input` of the
  // first stage has no tensors.
  virtual Task<Border> forward(Border input) = 0;

  // Gradients for the previous stage; nothing of use on the first. `gradients` of the last stage has no tensors: it
  // makes them from its loss.
  virtual Task<Border> backward(Border gradients) = 0;

  // Moves the weights by the gradients of all micro-batches since the last update. Updates count from 0.
  virtual Task<> update(std::uint64_t update) = 0;
};

// What a stage has been doing.
struct StageRecord {
  Duration busy{};
  Duration waited_forward{};                           // for something to compute forward
  Duration waited_backward{};                          // for gradients
  std::map<std::uint64_t, std::uint64_t> staleness{};  // how many micro-batches had how many updates in between
  std::size_t most_in_flight = 0;
};

// Carries out a stage's part of a schedule: takes what comes from the neighbours, in the order that the schedule gives
// it, and passes on what becomes of it. A micro-batch is known by its number, which travels with it.
//
// Confined to the executor of the work, which is the clock's.
class StageRunner {
 public:
  // Everything outlives this.
  StageRunner(Clock& clock, plan::ScheduleOptions options, plan::StagePlace place, Borders& borders, StageWork& work);

  // Takes micro-batches until `end` of them have gone through since the beginning, or the work admits no more, and all
  // updates are made. Requires: `end` is a multiple of what an update takes. Throws LinkError if a neighbour is lost.
  Task<> run(std::uint64_t end);

  // Begins anew, with other ways to the neighbours: what was on its way is forgotten, and the next micro-batch is
  // number 0. The record goes on. Requires: run() is not under way. The borders outlive this.
  void restart(Borders& borders);

  // Everything that it does, by micro-batch, and its waits are spans from now on.
  void watch(BeginSpan actions) { watch_ = std::move(actions); }

  // Admissions may have changed.
  void wake() { borders_->changed().notify(); }

  std::uint64_t micro_batches() const { return agenda_.backwards(); }  // that have gone through
  std::uint64_t updates() const { return agenda_.updates(); }
  const StageRecord& record() const { return record_; }

 private:
  std::optional<plan::Action> next(std::uint64_t end);
  void collect();
  Task<> carry_out(plan::Action action);
  Task<> wait(bool for_forward);

  Clock& clock_;
  plan::ScheduleOptions options_;
  plan::StagePlace place_;
  Borders* borders_;
  StageWork& work_;
  plan::Agenda agenda_;
  std::optional<Border> input_, gradients_;          // that came, and are due
  std::map<std::uint64_t, std::uint64_t> versions_;  // updates made before each micro-batch's forward
  bool ends_ = false;                                // the work admits no more
  bool held_ = false;                                // it admits no more for now
  StageRecord record_;
  BeginSpan watch_;
};

}  // namespace rookery::pipeline
