#include <atomic>
#include <csignal>
#include <iostream>
#include <unistd.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/log.h"
#include "cli/commands.h"
#include "observe/progress.h"
#include "train/learner.h"
#include "train/run.h"

namespace rookery::cli {
namespace {

constexpr int kInterrupted = 130;

std::atomic<bool> stop_requested = false;

// The first Ctrl-C ends the run after its current step, with a checkpoint; the second ends the program at once.
extern "C" void on_interrupt(int) {
  if (stop_requested.exchange(true)) ::_exit(kInterrupted);
}

struct TrainOptions {
  SettingsOptions settings;
  std::string out;
  bool resume = false;
  bool json = false;
};

// With --resume, a run continues with the settings it was started with unless a file is given.
config::Settings load_settings(TrainOptions& options) {
  const auto default_out = [&] { return (std::filesystem::path("runs") / options.settings.load().name).string(); };
  if (options.out.empty()) options.out = default_out();
  if (options.resume && options.settings.file.empty()) {
    options.settings.file = train::open_run(options.out).settings().string();
  }
  return options.settings.load();
}

void say_what_starts(const train::Run& run, const std::string& out) {
  const config::Settings& s = run.settings();
  fmt::print(stderr, "{}: {} with {} parameters on {}\n", s.name, run.model().kind(),
             format_count(static_cast<double>(run.model().parameter_count())), run.dataset().info().description);
  if (run.moved_aside()) fmt::print(stderr, "an earlier run was moved to {}\n", run.moved_aside()->string());
  const std::int64_t done = run.position().step;
  fmt::print(stderr, "{} {} to step {}, results in {}\n", done > 0 ? "resuming at step" : "training from step", done,
             s.train.steps, out);
}

std::string loss_line(std::string_view name, double loss, std::optional<double> accuracy, bool classes) {
  std::string line = fmt::format("{:<12} {:.4f}", name, loss);
  if (accuracy && classes) line += fmt::format("   accuracy {:.2f}%", 100 * *accuracy);
  return line + "\n";
}

void say_how_it_ended(const train::Run& run, const train::RunOutcome& outcome, const std::string& out) {
  const observe::Summary& s = outcome.summary;
  const bool classes = run.dataset().info().problem == Problem::kClassification;
  if (outcome.interrupted) {
    fmt::print("stopped after step {}; continue with: rookery train --resume --out {}\n", s.steps, out);
    return;
  }
  fmt::print("{}", loss_line("final loss", s.final_loss, {}, classes));
  if (s.eval_loss) fmt::print("{}", loss_line("eval loss", *s.eval_loss, s.eval_accuracy, classes));
  if (s.test_loss) fmt::print("{}", loss_line("test loss", *s.test_loss, s.test_accuracy, classes));
  if (s.entropy_floor && s.eval_loss) {
    fmt::print("{:<12} {:.4f}   the eval loss is {:.4f} above what any model could reach\n", "floor", *s.entropy_floor,
               *s.eval_loss - *s.entropy_floor);
  }
  const std::string tokens = classes ? "" : format_count(s.tokens_per_second) + " tokens/s, ";
  fmt::print("{:<12} {}{} samples/s, peak memory {}\n", "speed", tokens, format_count(s.samples_per_second),
             format_bytes(s.peak_memory_bytes));
  fmt::print("{:<12} {}\n", "run", out);
  if (run.dataset().info().problem == Problem::kLanguageModel && run.dataset().tokenizer() != nullptr) {
    fmt::print("{:<12} rookery generate {} --prompt \"Once\"\n", "try", out);
  }
}

std::unique_ptr<observe::Progress> progress_for(const train::Run& run) {
  const bool images = run.dataset().info().problem == Problem::kClassification;
  return std::make_unique<observe::Progress>(
      std::cerr, observe::Progress::Options{
                     .total_steps = run.settings().train.steps,
                     .first_step = run.position().step,
                     .unit = images ? observe::Progress::Unit::kSamples : observe::Progress::Unit::kTokens,
                     .columns = [] { return observe::terminal_columns(STDERR_FILENO); },
                 });
}

int train(TrainOptions options) {
  const config::Settings settings = load_settings(options);
  train::use_threads(settings.train.threads);
  const train::RunDirectory directory(options.out);
  if (options.resume && !directory.holds_run()) throw InputError("{}: there is no run to resume", options.out);
  train::Run run(settings, directory, options.resume);
  std::signal(SIGINT, on_interrupt);
  std::signal(SIGTERM, on_interrupt);
  log_to(directory.log());
  run.add_sink(progress_for(run));
  say_what_starts(run, options.out);

  const train::RunOutcome outcome = run.train(stop_requested);
  if (options.json) {
    nlohmann::ordered_json object = observe::to_json(outcome.summary);
    object["run"] = options.out;
    print_json(object);
  } else {
    say_how_it_ended(run, outcome, options.out);
  }
  return outcome.interrupted ? kInterrupted : 0;
}

}  // namespace

void add_train(CLI::App& app, const Choose& choose) {
  CLI::App* command = app.add_subcommand("train", "train a model on this machine");
  auto options = std::make_shared<TrainOptions>();
  options->settings.add_to(*command);
  command->add_option("--out", options->out, "directory of the run (default: runs/NAME)")->type_name("DIR");
  command->add_flag("--resume", options->resume, "continue from the newest checkpoint");
  command->add_flag("--json", options->json, "print the summary as JSON");
  command->callback([options, choose] { choose([options] { return train(*options); }); });
}

}  // namespace rookery::cli
