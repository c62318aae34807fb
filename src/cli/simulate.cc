#include <chrono>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/heap.h"
#include "base/log.h"
#include "cli/commands.h"
#include "cli/run_output.h"
#include "observe/memory.h"
#include "simulate/simulation.h"
#include "train/learner.h"

namespace rookery::cli {
namespace {

using nlohmann::ordered_json;
using SteadyClock = std::chrono::steady_clock;

struct SimulateOptions {
  std::string file, out;
  std::vector<std::string> overrides;
  std::optional<std::int64_t> seed;
  std::string chaos;
  bool json = false;
};

std::string duration(double seconds) {
  return format_duration(std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(seconds)));
}

config::Scenario scenario_of(const SimulateOptions& options) {
  std::vector<std::string> overrides = options.overrides;
  if (options.seed) overrides.push_back(fmt::format("train.seed={}", *options.seed));
  if (!options.chaos.empty()) overrides.push_back("simulate.chaos=" + options.chaos);
  return config::load_scenario(options.file, overrides);
}

void say(const simulate::Simulation& simulation, const simulate::Outcome& outcome, double took,
         const std::string& out) {
  const observe::Summary& s = outcome.summary;
  const plan::Candidate& candidate = simulation.plan().candidate;
  const std::string method =
      candidate.clusters.size() > 1 ? fmt::format(", kept one by {}", plan::described(candidate.method)) : "";
  std::size_t peers = 0;
  for (const auto& cluster : candidate.clusters) peers += cluster.size();
  fmt::print("{:<12} {} peers in {} clusters{}\n", "swarm", peers, candidate.clusters.size(), method);
  if (outcome.lost > 0) fmt::print("{:<12} {} peers were lost\n", "churn", outcome.lost);
  fmt::print("{:<12} {} steps in {}\n", "time", s.steps, duration(outcome.virtual_seconds));
  fmt::print("{:<12} {:.4g} samples/s\n", "throughput", s.samples_per_second);
  fmt::print("{:<12} peers compute for {:.1f}% of the time, and wait for each other {:.1f}%\n", "utilisation",
             100 * outcome.utilisation, 100 * s.exposed_communication_share.value_or(0));
  fmt::print("{:<12} {} sent in {} rounds{}\n", "traffic", format_bytes(s.bytes_sent.value_or(0)), s.rounds.value_or(0),
             outcome.rounds_repeated + static_cast<std::uint64_t>(s.rounds_failed) > 0
                 ? fmt::format("; a peer's part in one was repeated {} times, and failed {} times",
                               outcome.rounds_repeated, s.rounds_failed)
                 : ", of which none failed or was repeated");
  if (s.eval_loss) fmt::print("{:<12} {:.4f}\n", "eval loss", *s.eval_loss);
  if (s.measured_step_seconds && s.predicted_step_seconds) {
    fmt::print("{:<12} {} a step, predicted {} ({:+.0f}%)\n", "took", duration(*s.measured_step_seconds),
               duration(*s.predicted_step_seconds), 100 * (*s.predicted_step_seconds / *s.measured_step_seconds - 1));
  }
  fmt::print("{:<12} {} on this computer for {} events, {} of memory\n", "simulated", duration(took),
             format_count(static_cast<double>(outcome.events)), format_bytes(observe::peak_memory()));
  fmt::print("{:<12} {}\n", "run", out);
}

int simulate(SimulateOptions options) {
  prefer_large_pages(std::size_t{8} << 30);
  const config::Scenario scenario = scenario_of(options);
  if (options.out.empty()) options.out = (std::filesystem::path("runs") / scenario.settings.name).string();
  train::use_threads(scenario.settings.train.threads);
  train::warm_up();
  const train::RunDirectory directory(options.out);
  const auto start = SteadyClock::now();
  simulate::Simulation simulation(scenario, directory, train::user_cache() / "profiles");
  const std::atomic<bool>& stop = stop_on_interrupt();
  log_to(directory.log());
  const Shown shown{simulation.blueprint().settings,
                    *simulation.blueprint().data,
                    *simulation.blueprint().model,
                    0,
                    simulation.moved_aside(),
                    options.out,
                    "rookery simulate"};
  simulation.add_sink(progress_for(shown));
  const simulate::Outcome outcome = simulation.run(stop);
  const double took = std::chrono::duration<double>(SteadyClock::now() - start).count();
  if (options.json) {
    ordered_json result = observe::to_json(outcome.summary);
    result["virtual_seconds"] = outcome.virtual_seconds;
    result["simulation_seconds"] = took;
    result["utilisation"] = outcome.utilisation;
    result["peers_lost"] = outcome.lost;
    result["rounds_repeated"] = outcome.rounds_repeated;
    result["events"] = outcome.events;
    result["trace"] = fmt::format("{:016x}", outcome.trace);
    result["simulation_memory_bytes"] = observe::peak_memory();
    print_json(result);
  } else {
    say(simulation, outcome, took, options.out);
  }
  return outcome.interrupted ? kInterrupted : 0;
}

}  // namespace

void add_simulate(CLI::App& app, const Choose& choose) {
  CLI::App* command = app.add_subcommand("simulate", "how a swarm of computers that are not here would train");
  auto options = std::make_shared<SimulateOptions>();
  command->add_option("scenario.toml", options->file, "what is trained, by which computers")->required();
  command->add_option("--set", options->overrides, "change one setting: --set simulate.time=1h (may be repeated)")
      ->type_name("SECTION.KEY=VALUE")
      ->allow_extra_args(false);
  command->add_option("--seed", options->seed, "of everything random")->type_name("N");
  command
      ->add_option("--chaos", options->chaos,
                   "kill, freeze and cut off peers: \"kill 0.02/s, freeze 0.01/s, rejoin 10s\"")
      ->type_name("SPEC");
  command->add_option("--out", options->out, "directory of the run (default: runs/NAME)")->type_name("DIR");
  command->add_flag("--json", options->json, "print the result as JSON");
  command->callback([options, choose] { choose([options] { return simulate(*options); }); });
}

}  // namespace rookery::cli
