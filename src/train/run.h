#pragma once

#include <atomic>
#include <filesystem>
#include <memory>
#include <vector>

#include "config/settings.h"
#include "observe/memory.h"
#include "observe/metrics.h"
#include "observe/trace.h"
#include "train/checkpoint.h"
#include "train/learner.h"
#include "train/run_directory.h"
#include "train/setup.h"
#include "train/trainee.h"

namespace rookery::train {

struct RunOutcome {
  observe::Summary summary;
  bool interrupted = false;  // `stop` was set: the state is in a checkpoint, and the run can be resumed
};

// What somebody else may wish while a run goes on; any thread.
struct RunWishes {
  std::atomic<bool> hold = false;  // no further step, until it is not so any more
  std::atomic<bool> save = false;  // a checkpoint after this step, or now if it is held; taken back when it is seen
};

// Learns what becomes of wishes, on the thread that trains.
class RunWatcher {
 public:
  virtual ~RunWatcher() = default;

  virtual void held() {}  // no step is under way; said again and again until it is released
  virtual void released() {}
  virtual void saved(std::int64_t /*step*/) {}
};

// The training of one model by one peer, in one run directory.
//
//   Run run(settings, directory, resume);
//   run.add_sink(...);
//   const RunOutcome outcome = run.train(stop);
//
// Lives on the calling thread, which is the compute thread.
class Run {
 public:
  // Opens the data, builds the model, and prepares the directory. With `resume` it restores the newest checkpoint and
  // cuts off the metrics written after it, or starts anew where there is none; without, an earlier run is moved aside.
  // Everything that can be wrong with the input throws InputError before anything is written.
  Run(config::Settings settings, RunDirectory directory, bool resume);
  Run(Blueprint blueprint, RunDirectory directory, bool resume);

  // What a step was predicted to take; told in the summary, beside what it took.
  void expect(double step_seconds) { predicted_step_seconds_ = step_seconds; }

  void add_sink(std::unique_ptr<observe::Sink> sink) { sinks_.add(std::move(sink)); }

  // What it does is written to trace.json from now on.
  void write_trace();

  // The same is told to whoever watches.
  void watch(BeginSpan compute) { watch_ = both(std::move(watch_), std::move(compute)); }

  // The same for holding and saving. Outlives train().
  void add_watcher(RunWatcher& watcher) { watchers_.push_back(&watcher); }

  // Trains to the last step, evaluating and saving checkpoints on the way; checks `stop` after every step. Writes
  // metrics.jsonl, TensorBoard events and, at the end, summary.json.
  // Throws Error if the loss is no longer a number.
  RunOutcome train(const std::atomic<bool>& stop, RunWishes& wishes);
  RunOutcome train(const std::atomic<bool>& stop) {
    RunWishes none;
    return train(stop, none);
  }

  const Position& position() const { return position_; }
  Bytes own_memory() const { return own_memory_; }  // what the program took before it held any layer
  const data::Dataset& dataset() const { return trainee_.data(); }
  const model::Model& model() const { return trainee_.model(); }

  // The settings with all sizes filled in, as they are in run.toml.
  const config::Settings& settings() const { return trainee_.settings(); }

  // Where an earlier run in the same directory went, if there was one.
  const std::optional<std::filesystem::path>& moved_aside() const { return moved_aside_; }

 private:
  void wait_while_held(const std::atomic<bool>& stop, RunWishes& wishes);
  observe::StepMetrics step();
  std::optional<LossReport> evaluate(data::Split split, std::uint64_t samples, const std::atomic<bool>& stop);
  void restore(const std::filesystem::path& checkpoint);
  void save();
  observe::Summary summarize(double seconds_here, const Position& began, const std::atomic<bool>& stop);

  Bytes own_memory_;
  Trainee trainee_;
  RunDirectory directory_;
  Position position_;
  std::optional<std::int64_t> saved_step_;
  std::optional<std::filesystem::path> moved_aside_;
  std::optional<LossReport> last_evaluation_;
  double seconds_in_steps_ = 0;
  std::optional<double> predicted_step_seconds_;
  observe::Sinks sinks_;
  std::unique_ptr<observe::Trace> trace_;
  BeginSpan watch_;
  std::vector<RunWatcher*> watchers_;
};

}  // namespace rookery::train
