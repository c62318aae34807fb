#include "base/error.h"
#include "base/log.h"
#include "cli/commands.h"
#include "cli/dashboard.h"
#include "cli/run_output.h"
#include "observe/memory.h"
#include "train/arrange.h"
#include "train/chaos.h"
#include "train/learner.h"
#include "train/local_peers.h"
#include "train/profile.h"
#include "train/run.h"
#include "train/swarm_run.h"

namespace rookery::cli {
namespace {

constexpr std::chrono::seconds kFarewell(10);  // for peers to end when the run is over

struct TrainOptions {
  SettingsOptions settings;
  std::string out, chaos;
  std::uint64_t chaos_seed = 1;
  bool resume = false, trace = false;
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

// How a peer alone would get on, by what this computer was measured to take for layers; nothing if a plan could not
// have it, which need not keep it from training.
std::optional<plan::Prediction> prediction_for(const train::Blueprint& blueprint) try {
  if (blueprint.settings.train.device != "cpu") return std::nullopt;
  train::warm_up();
  const train::Profile profile = train::current_profile(blueprint, train::user_cache() / "profiles");
  const plan::Swarm swarm = train::described_swarm(blueprint.settings, profile);
  plan::Prediction prediction =
      train::options_for(blueprint, train::job_of(blueprint, profile.layers), swarm).front().prediction;
  observe::forget_peak_memory();
  return prediction;
} catch (const InputError&) {
  return std::nullopt;
}

int train_alone(const TrainOptions& options, const config::Settings& settings, const train::RunDirectory& directory) {
  train::use_threads(settings.train.threads);
  train::Blueprint blueprint = train::make_blueprint(settings);
  const std::optional<plan::Prediction> expected = prediction_for(blueprint);
  train::Run run(std::move(blueprint), directory, options.resume);
  train::LonePlan plan;
  if (!settings.peers.empty()) plan.limit = settings.peers.front().memory;
  if (expected) {
    run.expect(expected->step_seconds);
    plan.step_seconds = expected->step_seconds;
    plan.memory = run.own_memory() + expected->memory.front();
  }
  if (options.trace) run.write_trace();
  const std::atomic<bool>& stop = stop_on_interrupt();
  log_to(directory.log());
  const Shown shown{run.settings(), run.dataset(), run.model(), run.position().step, run.moved_aside(), options.out};
  run.add_sink(progress_for(shown));
  say_what_starts(shown);
  train::RunWishes wishes;
  LoneDashboard dashboard(run, shown, wishes, plan);
  const train::RunOutcome outcome = dashboard.show([&] { return run.train(stop, wishes); });
  return say_how_it_ended(shown, outcome, options.json);
}

int train_together(const TrainOptions& options, const config::Settings& settings,
                   const train::RunDirectory& directory) {
  std::optional<train::ChaosOptions> plague;
  if (!options.chaos.empty()) {
    plague = train::parse_chaos(options.chaos);
    train::ChaosSchedule(*plague, static_cast<std::size_t>(settings.swarm.peers), options.chaos_seed);  // or it throws
  }
  train::LocalPeers peers(static_cast<std::size_t>(settings.swarm.peers),
                          plague.has_value());  // while there is one thread
  train::SwarmRun run(settings, directory, options.resume, {.local = true});
  const std::atomic<bool>& stop = stop_on_interrupt();
  log_to(directory.log());
  const Shown shown = shown_of(run, options.out, "rookery train");
  run.add_sink(progress_for(shown));
  run.tell_plan_to([](const std::string& sentence) { fmt::print(stderr, "{}\n", sentence); });
  say_what_starts(shown);
  SwarmDashboard dashboard(run, shown);
  peers.join(run.ticket(), run.blueprint().settings, directory, options.trace);
  std::optional<train::Chaos> chaos;
  if (plague) {
    chaos.emplace(*plague, options.chaos_seed, peers,
                  [&](const std::string& peer, const std::string& what) { run.note("chaos", peer, what); });
  }
  const train::RunOutcome outcome = dashboard.show([&] {
    return run.train(
        stop, [&] { peers.check(); },
        [&](double seconds) {
          if (chaos) chaos->look(seconds);
        });
  });
  peers.wait(kFarewell);
  if (options.trace) peers.join_traces(directory);
  return say_how_it_ended(shown, outcome, options.json);
}

int train(TrainOptions options) {
  const config::Settings settings = load_settings(options);
  const train::RunDirectory directory(options.out);
  if (options.resume && !directory.holds_run()) throw InputError("{}: there is no run to resume", options.out);
  if (settings.swarm.peers == 1 && !options.chaos.empty()) throw InputError("--chaos is for a swarm: set swarm.peers");
  return settings.swarm.peers == 1 ? train_alone(options, settings, directory)
                                   : train_together(options, settings, directory);
}

}  // namespace

void add_train(CLI::App& app, const Choose& choose) {
  CLI::App* command = app.add_subcommand("train", "train a model on this machine, alone or as a swarm of local peers");
  auto options = std::make_shared<TrainOptions>();
  options->settings.add_to(*command);
  command->add_option("--out", options->out, "directory of the run (default: runs/NAME)")->type_name("DIR");
  command->add_flag("--resume", options->resume, "continue from the newest checkpoint");
  command->add_flag("--trace", options->trace,
                    "write trace.json: what each peer did and when, for chrome://tracing or ui.perfetto.dev");
  command
      ->add_option("--chaos", options->chaos,
                   "what happens to local peers, e.g. \"kill 0.02/s, freeze 0.01/s, cut 0.01/s, rejoin 10s\", or "
                   "\"kill 3 at 20s\"")
      ->type_name("SPEC");
  command->add_option("--chaos-seed", options->chaos_seed, "that decides when, and to whom")->type_name("N");
  command->add_flag("--json", options->json, "print the summary as JSON");
  command->callback([options, choose] { choose([options] { return train(*options); }); });
}

}  // namespace rookery::cli
