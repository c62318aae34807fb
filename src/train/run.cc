#include "train/run.h"

#include <chrono>
#include <cmath>
#include <thread>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "observe/jsonl.h"
#include "observe/memory.h"
#include "observe/tensorboard.h"

namespace rookery::train {
namespace {

using data::Split;

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

Bytes memory_of_the_program() {
  warm_up();
  return observe::resident_memory();
}

double rate(std::int64_t amount, double seconds) { return seconds > 0 ? static_cast<double>(amount) / seconds : 0; }

}  // namespace

Run::Run(config::Settings settings, RunDirectory directory, bool resume)
    : Run(make_blueprint(std::move(settings)), std::move(directory), resume) {}

Run::Run(Blueprint blueprint, RunDirectory directory, bool resume)
    : own_memory_(memory_of_the_program()), trainee_(std::move(blueprint)), directory_(std::move(directory)) {
  const auto checkpoint = resume ? newest_checkpoint(directory_.checkpoints()) : std::nullopt;
  if (checkpoint) {
    restore(*checkpoint);
  } else {
    trainee_.stage().initialize(static_cast<std::uint64_t>(trainee_.settings().train.seed));
  }
  if (resume) {
    observe::truncate_after(directory_.metrics(), position_.step);
  } else {
    moved_aside_ = directory_.prepare();
  }
  replace_file(directory_.settings(), config::to_toml(trainee_.settings()));
  sinks_.add(std::make_unique<observe::JsonlSink>(directory_.metrics()));
  sinks_.add(std::make_unique<observe::TensorBoardSink>(
      directory_.tensorboard(), observe::TensorBoardSink::Options{.first_step = position_.step}));
}

void Run::restore(const std::filesystem::path& checkpoint) {
  verify_checkpoint(checkpoint);
  const CheckpointInfo info = read_checkpoint_info(checkpoint);
  check_identity(info, settings(), trainee_.data_fingerprint());
  load_checkpoint(info, trainee_.stage());
  position_ = info.position;
  saved_step_ = position_.step;
}

void Run::write_trace() {
  std::filesystem::create_directories(directory_.peers());
  trace_ = std::make_unique<observe::Trace>(directory_.peer_trace("peer-0"), 0, "peer-0");
  watch_ = trace_->row("compute");
}

void Run::wait_while_held(const std::atomic<bool>& stop, RunWishes& wishes) {
  constexpr std::chrono::milliseconds kLookAgain(50);
  if (!wishes.hold) return;
  {
    const Span span(watch_, "wait while held", static_cast<std::uint64_t>(position_.step));
    while (wishes.hold && !stop) {
      if (wishes.save.exchange(false)) save();
      for (RunWatcher* watcher : watchers_) watcher->held();
      std::this_thread::sleep_for(kLookAgain);
    }
  }
  for (RunWatcher* watcher : watchers_) watcher->released();
}

RunOutcome Run::train(const std::atomic<bool>& stop, RunWishes& wishes) {
  const config::Train& t = settings().train;
  const Position began = position_;
  const auto start = std::chrono::steady_clock::now();
  spdlog::info("{}: {} parameters, {}, from step {} to {}", trainee_.model().kind(), trainee_.stage().store().size(),
               dataset().info().description, position_.step, t.steps);
  while (position_.step < t.steps && !stop) {
    observe::StepMetrics metrics = step();
    const bool last = position_.step == t.steps;
    if (t.eval_batches > 0 && (last || due(position_.step, t.eval_every))) {
      // Not cut short by `stop`: the metrics of a step are the same whether the run goes on or not.
      last_evaluation_ = evaluate(Split::kEval, trainee_.evaluated_samples(), false);
      metrics.eval_loss = last_evaluation_->loss;
      metrics.eval_accuracy = last_evaluation_->accuracy;
    }
    position_.seconds = began.seconds + seconds_since(start);
    metrics.seconds = position_.seconds;
    sinks_.step(metrics);
    if (due(position_.step, t.log_every)) {
      spdlog::info("step {} loss {:.4f} grad_norm {:.3f} lr {:.3g}", metrics.step, metrics.loss, metrics.grad_norm,
                   metrics.lr);
    }
    const bool is_wished = wishes.save.exchange(false);
    if (due(position_.step, t.checkpoint_every) || last || is_wished) save();
    if (!last) wait_while_held(stop, wishes);
  }
  if (saved_step_ != position_.step) save();
  const RunOutcome outcome{summarize(seconds_since(start), began, stop), position_.step < t.steps};
  const bool was_finished = began.step == position_.step && std::filesystem::exists(directory_.summary());
  if (!was_finished) replace_file(directory_.summary(), observe::to_json(outcome.summary).dump(2) + "\n");
  sinks_.finish(outcome.summary);
  if (trace_) {
    trace_.reset();
    const std::filesystem::path trace = directory_.peer_trace("peer-0");
    observe::join_traces(std::span(&trace, 1), directory_.trace());
    std::filesystem::remove(trace);
  }
  return outcome;
}

observe::StepMetrics Run::step() {
  const config::Train& t = settings().train;
  const auto start = std::chrono::steady_clock::now();
  const auto number = static_cast<std::uint64_t>(position_.step) + 1;
  const Batch batch = trainee_.batch(position_.samples);
  std::optional<Span> span(std::in_place, watch_, "forward and backward", number);
  const LossReport report = trainee_.accumulate_gradients(batch, position_.step);
  const double lr = learning_rate(schedule_options(t), position_.step);
  span.emplace(watch_, "update", number);
  const double norm = Learner(trainee_.stage()).update(lr, t.clip);
  span.reset();

  position_.step += 1;
  position_.samples += batch.samples;
  position_.tokens += batch.tokens;
  position_.loss = report.loss;
  if (!std::isfinite(report.loss) || !std::isfinite(norm)) {
    throw Error("the loss is no longer a number at step {}; lower train.lr (now {}) or raise train.warmup",
                position_.step, t.lr);
  }
  const double seconds = seconds_since(start);
  seconds_in_steps_ += seconds;
  return {.step = position_.step,
          .loss = report.loss,
          .step_seconds = seconds,
          .samples = position_.samples,
          .tokens = position_.tokens,
          .lr = lr,
          .grad_norm = norm};
}

// Over the first samples of a split. Nothing if stopped.
std::optional<LossReport> Run::evaluate(Split split, std::uint64_t samples, const std::atomic<bool>& stop) {
  const Span span(watch_, "evaluation", static_cast<std::uint64_t>(position_.step));
  return trainee_.evaluate(split, 0, samples, stop);
}

void Run::save() {
  const Span span(watch_, "checkpoint", static_cast<std::uint64_t>(position_.step));
  make_durable(directory_.metrics());  // a checkpoint must not outlive the lines before it
  const CheckpointInfo info{.path = {},
                            .position = position_,
                            .optimizer_steps = trainee_.stage().optimizer().steps(),
                            .data = trainee_.data_fingerprint(),
                            .text = dataset().tokenizer() != nullptr,
                            .batch = settings().train.batch,
                            .made_with = identity(settings()),
                            .shards = {{.layers = trainee_.stage().layers()}}};
  save_checkpoint(directory_.checkpoints(), info, trainee_.stage(), {}, settings().train.keep_checkpoints);
  saved_step_ = position_.step;
  spdlog::info("checkpoint at step {}", position_.step);
  for (RunWatcher* watcher : watchers_) watcher->saved(position_.step);
}

observe::Summary Run::summarize(double seconds_here, const Position& began, const std::atomic<bool>& stop) {
  observe::Summary summary{.final_loss = position_.loss,
                           .steps = position_.step,
                           .samples = position_.samples,
                           .tokens = position_.tokens,
                           .tokens_per_second = rate(position_.tokens - began.tokens, seconds_in_steps_),
                           .samples_per_second = rate(position_.samples - began.samples, seconds_in_steps_),
                           .wall_seconds = position_.seconds,
                           .parameters = trainee_.stage().store().size()};
  if (settings().train.eval_batches > 0 && position_.step == settings().train.steps) {
    if (!last_evaluation_) last_evaluation_ = evaluate(Split::kEval, trainee_.evaluated_samples(), false);
    summary.eval_loss = last_evaluation_->loss;
    summary.eval_accuracy = last_evaluation_->accuracy;
    summary.entropy_floor = dataset().entropy_floor(trainee_.evaluated_samples());
    if (const auto test = evaluate(Split::kTest, kMaxTestSamples, stop)) {
      summary.test_loss = test->loss;
      summary.test_accuracy = test->accuracy;
    }
  }
  if (predicted_step_seconds_ && position_.step > began.step) {
    summary.predicted_step_seconds = predicted_step_seconds_;
    summary.measured_step_seconds = seconds_in_steps_ / static_cast<double>(position_.step - began.step);
  }
  summary.peak_memory_bytes = observe::peak_memory();
  summary.peers = {{.name = "peer-0",
                    .peak_memory_bytes = summary.peak_memory_bytes,
                    .own_memory_bytes = own_memory_,
                    .busy_share = seconds_here > 0 ? seconds_in_steps_ / seconds_here : 0}};
  return summary;
}

}  // namespace rookery::train
