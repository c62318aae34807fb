#include <cstdio>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/log.h"
#include "cli/commands.h"
#include "cli/dashboard.h"
#include "cli/run_output.h"
#include "train/swarm_run.h"
#include "wire/ticket.h"

namespace rookery::cli {
namespace {

struct CoordinateOptions {
  SettingsOptions settings;
  train::SwarmRunOptions swarm;
  std::string out;
  bool resume = false;
  bool take_up = false;
  bool plain = false;
  bool json = false;
};

// On standard output, so that a script can take it from there.
void show_ticket(const train::SwarmRun& run, const CoordinateOptions& options) {
  const std::string ticket = wire::to_text(run.ticket());
  if (options.take_up) return fmt::print(stderr, "waiting for the peers of the run to return\n");
  fmt::print(stderr, "waiting for {} peers at {}; on each computer:\n\n", run.blueprint().settings.swarm.peers,
             fmt::join(run.ticket().addresses, ", "));
  if (options.json) {
    print_json({{"ticket", ticket}, {"addresses", run.ticket().addresses}});
  } else {
    fmt::print("rookery join {}{}\n", ticket, options.plain ? " --plain" : "");
  }
  std::fflush(stdout);
  fmt::print(stderr, "\n");
}

int coordinate(CoordinateOptions options) {
  if (options.take_up && options.resume) throw InputError("--take-up goes on where the peers are; leave out --resume");
  if (options.take_up && options.out.empty()) throw InputError("--take-up: say with --out which run");
  if (!options.take_up && options.swarm.listen.empty())
    throw InputError("--listen: say where peers find it, HOST:PORT");
  options.swarm.takes_up = options.take_up;
  if ((options.resume || options.take_up) && options.settings.file.empty() && !options.out.empty()) {
    options.settings.file = train::open_run(options.out).settings().string();  // as it was started
  }
  const config::Settings settings = options.settings.load();
  if (options.out.empty()) options.out = (std::filesystem::path("runs") / settings.name).string();
  const train::RunDirectory directory(options.out);
  if (options.resume && !directory.holds_run()) throw InputError("{}: there is no run to resume", options.out);
  options.swarm.encrypt = !options.plain;
  train::SwarmRun run(settings, directory, options.resume, options.swarm);
  const std::atomic<bool>& stop = stop_on_interrupt();
  log_to(directory.log());
  const Shown shown = shown_of(run, options.out, "rookery coordinate --listen " + options.swarm.listen);
  run.add_sink(progress_for(shown));
  run.tell_events_to([](const std::string& sentence) { fmt::print(stderr, "{}\n", sentence); });
  say_what_starts(shown);
  SwarmDashboard dashboard(run, shown);
  show_ticket(run, options);
  return say_how_it_ended(shown, dashboard.show([&] { return run.train(stop); }), options.json);
}

}  // namespace

void add_coordinate(CLI::App& app, const Choose& choose) {
  CLI::App* command = app.add_subcommand("coordinate", "bring computers together to train: prints a ticket for them");
  auto options = std::make_shared<CoordinateOptions>();
  options->swarm.listen.clear();
  options->settings.add_to(*command);
  command->add_option("--listen", options->swarm.listen, "where peers find it; 0.0.0.0:PORT: on all networks")
      ->type_name("HOST:PORT");
  command->add_option("--advertise", options->swarm.advertise, "HOST:PORT that the ticket names, instead of its own")
      ->allow_extra_args(false);
  command->add_option("--out", options->out, "directory of the run (default: runs/NAME)")->type_name("DIR");
  command->add_flag("--resume", options->resume, "continue from the newest checkpoint");
  command->add_flag("--take-up", options->take_up,
                    "the run's coordinator has ended, and its peers train on: go on with them");
  command->add_flag("--plain", options->plain, "without encryption, on a network that you trust; peers need it, too");
  command->add_flag("--json", options->json, "print ticket and summary as JSON");
  command->callback([options, choose] { choose([options] { return coordinate(*options); }); });
}

}  // namespace rookery::cli
