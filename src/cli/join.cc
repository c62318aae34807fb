#include "train/join.h"

#include <iostream>
#include <unistd.h>

#include <fmt/format.h>

#include "base/error.h"
#include "cli/commands.h"
#include "net/error.h"
#include "observe/progress.h"
#include "wire/handshake.h"

namespace rookery::cli {
namespace {

struct JoinArguments {
  std::string ticket, name, memory, device, step_time, patience = "5min";
  std::int64_t threads = 0;
  double speed = 1;
  bool plain = false;
};

int join(const JoinArguments& a) {
  train::JoinOptions options{.name = a.name.empty() ? train::computer_name() : a.name,
                             .threads = a.threads,
                             .pace = {.speed = a.speed},
                             .encrypt = !a.plain};
  try {
    options.ticket = wire::parse_ticket(a.ticket);
    if (!a.memory.empty()) options.memory = parse_bytes(a.memory);
  } catch (const wire::WireError& error) {
    throw InputError("{}", error.what());
  } catch (const InputError& error) {
    throw InputError("--memory: {}", error.what());
  }
  try {
    options.patience = parse_duration(a.patience);
  } catch (const InputError& error) {
    throw InputError("--patience: {}", error.what());
  }
  try {
    if (!a.step_time.empty()) options.pace.step_time = parse_duration(a.step_time);
  } catch (const InputError& error) {
    throw InputError("--step-time: {}", error.what());
  }
  if (!wire::is_name(options.name)) {
    throw InputError("--name: '{}' is no name; use letters, digits, - and _", options.name);
  }
  if (!a.device.empty()) options.device = a.device;
  options.show = [](const config::Settings& settings, std::int64_t steps_done) {
    fmt::print(stderr, "training {} with {} peers, to step {}\n", settings.name, settings.swarm.peers,
               settings.train.steps);
    return std::make_unique<observe::Progress>(
        std::cerr, observe::Progress::Options{.total_steps = settings.train.steps,
                                              .first_step = steps_done,
                                              .unit = observe::Progress::Unit::kSamples,
                                              .columns = [] { return observe::terminal_columns(STDERR_FILENO); }});
  };
  fmt::print(stderr, "joining as {}\n", options.name);
  try {
    train::join(options);
  } catch (const net::LinkError& error) {
    if (error.failure() == net::Failure::kUnreachable) {
      throw Error("{}; the run may have ended, or see what is wrong with: rookery doctor TICKET", error.what());
    }
    throw;
  }
  fmt::print("the run is over; its results are with the coordinator\n");
  return 0;
}

}  // namespace

void add_join(CLI::App& app, const Choose& choose) {
  CLI::App* command = app.add_subcommand("join", "bring this computer into a swarm");
  auto a = std::make_shared<JoinArguments>();
  command->add_option("TICKET", a->ticket, "what rookery coordinate has printed")->required();
  command->add_option("--name", a->name, "what others call this peer (default: the computer's name)");
  command->add_option("--memory", a->memory, "how much it may use, e.g. 2GiB (default: all)");
  command->add_option("--patience", a->patience, "how long to train on if the coordinator cannot be reached, e.g. 1h")
      ->capture_default_str();
  command->add_option("--threads", a->threads, "that compute (default: as the run says)")->check(CLI::Range(1, 4096));
  command->add_option("--device", a->device,
                      "that computes; so far swarms train on the cpu (default: as the run says)");
  command->add_option("--speed", a->speed, "share of this computer's speed that it uses")
      ->check(CLI::Range(0.001, 1.0))
      ->capture_default_str();
  command->add_option("--step-time", a->step_time,
                      "that a step pretends to take at full speed, e.g. 50ms (default: what it takes)");
  command->add_flag("--plain", a->plain, "without encryption, if the coordinator is, too");
  command->callback([a, choose] { choose([a] { return join(*a); }); });
}

}  // namespace rookery::cli
