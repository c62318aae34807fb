#include "cli/run_output.h"

#include <csignal>
#include <iostream>
#include <unistd.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/commands.h"

namespace rookery::cli {
namespace {

std::atomic<bool> stop_requested = false;

extern "C" void on_interrupt(int) {
  if (stop_requested.exchange(true)) ::_exit(kInterrupted);
}

std::string loss_line(std::string_view name, double loss, std::optional<double> accuracy, bool classes) {
  std::string line = fmt::format("{:<12} {:.4f}", name, loss);
  if (accuracy && classes) line += fmt::format("   accuracy {:.2f}%", 100 * *accuracy);
  return line + "\n";
}

std::string text_of(double seconds) {
  return format_duration(std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(seconds)));
}

void say_in_words(const Shown& run, const train::RunOutcome& outcome) {
  const observe::Summary& s = outcome.summary;
  const bool classes = run.data.info().problem == Problem::kClassification;
  if (outcome.interrupted) {
    fmt::print("stopped after step {}; continue with: {} --resume --out {}\n", s.steps, run.command, run.out);
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
  fmt::print("{:<12} {}{} samples/s, peak memory {}{}\n", "speed", tokens, format_count(s.samples_per_second),
             format_bytes(s.peak_memory_bytes), s.peers.size() > 1 ? " on the largest peer" : "");
  if (s.bytes_sent) {
    fmt::print("{:<12} {} peers sent {} in {} rounds, and waited for each other {:.1f}% of the time\n", "together",
               s.peers.size(), format_bytes(*s.bytes_sent), *s.rounds, 100 * s.exposed_communication_share.value_or(0));
  }
  if (s.predicted_step_seconds && s.measured_step_seconds) {
    fmt::print("{:<12} {} a step, predicted {} ({:+.0f}%)\n", "took", text_of(*s.measured_step_seconds),
               text_of(*s.predicted_step_seconds), 100 * (*s.predicted_step_seconds / *s.measured_step_seconds - 1));
  }
  for (const observe::ClusterSteps& own : s.left_out) {
    fmt::print("{:<12} cluster {} did not do steps {} to {}: it had lost a peer\n", "left out", own.cluster,
               own.first_step, own.last_step);
  }
  for (const observe::ClusterSteps& own : s.forgotten) {
    fmt::print("{:<12} what cluster {} learnt in steps {} to {}: it lost a peer before the next round\n", "forgotten",
               own.cluster, own.first_step, own.last_step);
  }
  if (s.consensus_distance && run.settings.sync.method != "none") {
    const bool differ = !s.identical_copies.value_or(true);
    fmt::print("{:<12} {:.3g} between a copy and the average of all, before they were made one{}\n", "distance",
               *s.consensus_distance, differ ? "; they still differ, which should not be" : "");
  }
  if (!s.expelled.empty()) {
    fmt::print("{:<12} {}: what they brought to rounds could not be right\n", "expelled", fmt::join(s.expelled, ", "));
  }
  for (const observe::PeerSummary& peer : s.peers) {
    if (peer.eval_loss) fmt::print("{}", loss_line(peer.name, *peer.eval_loss, {}, classes));
  }
  fmt::print("{:<12} {}\n", "run", run.out);
  if (run.data.info().problem == Problem::kLanguageModel && run.data.tokenizer() != nullptr) {
    fmt::print("{:<12} rookery generate {} --prompt \"Once\"\n", "try", run.out);
  }
}

std::string what_peers_hold(const config::Settings& s) {
  const auto& clusters = s.swarm.clusters;
  if (clusters && clusters->count < s.swarm.peers) {
    return fmt::format("{} peers in {} cluster{}", s.swarm.peers, clusters->count, clusters->count > 1 ? "s" : "");
  }
  if (s.pipeline.stages && s.pipeline.stages->size() > 1) {
    return fmt::format("{} peers in clusters of {}", s.swarm.peers, s.pipeline.stages->size());
  }
  const auto has_limit = [](const config::Peer& peer) { return peer.memory.has_value(); };
  if (std::ranges::any_of(s.peers, has_limit)) return fmt::format("{} peers, with copies that fit", s.swarm.peers);
  if (clusters) return fmt::format("{} peers, each with a copy of the model", s.swarm.peers);
  return fmt::format("{} peers; who holds what is planned when all are there", s.swarm.peers);
}

}  // namespace

const std::atomic<bool>& stop_on_interrupt() {
  std::signal(SIGINT, on_interrupt);
  std::signal(SIGTERM, on_interrupt);
  return stop_requested;
}

void request_stop() { stop_requested = true; }

Shown shown_of(const train::SwarmRun& run, const std::string& out, const std::string& command) {
  const train::Blueprint& blueprint = run.blueprint();
  return {blueprint.settings, *blueprint.data, *blueprint.model, run.began_at().step, run.moved_aside(), out, command};
}

void say_what_starts(const Shown& run) {
  const config::Settings& s = run.settings;
  fmt::print(stderr, "{}: {} with {} parameters on {}\n", s.name, run.model.kind(),
             format_count(static_cast<double>(run.model.parameter_count())), run.data.info().description);
  if (run.moved_aside) fmt::print(stderr, "an earlier run was moved to {}\n", run.moved_aside->string());
  if (s.swarm.peers > 1) {
    const std::string kept = s.sync.method == "auto" ? "" : fmt::format(", kept one by {}", s.sync.method);
    fmt::print(stderr, "{}{}\n", what_peers_hold(s), kept);
  }
  fmt::print(stderr, "{} {} to step {}, results in {}\n",
             run.first_step > 0 ? "resuming at step" : "training from step", run.first_step, s.train.steps, run.out);
}

std::unique_ptr<observe::Progress> progress_for(const Shown& run) {
  const bool images = run.data.info().problem == Problem::kClassification;
  return std::make_unique<observe::Progress>(
      std::cerr, observe::Progress::Options{
                     .total_steps = run.settings.train.steps,
                     .first_step = run.first_step,
                     .unit = images ? observe::Progress::Unit::kSamples : observe::Progress::Unit::kTokens,
                     .columns = [] { return observe::terminal_columns(STDERR_FILENO); },
                 });
}

int say_how_it_ended(const Shown& run, const train::RunOutcome& outcome, bool json) {
  if (json) {
    nlohmann::ordered_json object = observe::to_json(outcome.summary);
    object["run"] = run.out;
    print_json(object);
  } else {
    say_in_words(run, outcome);
  }
  return outcome.interrupted ? kInterrupted : 0;
}

}  // namespace rookery::cli
