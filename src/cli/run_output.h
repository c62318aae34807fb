#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include "config/settings.h"
#include "data/dataset.h"
#include "model/model.h"
#include "observe/progress.h"
#include "train/run.h"
#include "train/swarm_run.h"

// What commands that train say on their way, and at the end.
namespace rookery::cli {

inline constexpr int kInterrupted = 130;

// Set by the first Ctrl-C, which ends the run after its current step, with a checkpoint; the second ends the program at
// once.
const std::atomic<bool>& stop_on_interrupt();

// The same as the first Ctrl-C. Thread-safe.
void request_stop();

// A run, as far as people are told about it.
struct Shown {
  const config::Settings& settings;
  const data::Dataset& data;
  const model::Model& model;
  std::int64_t first_step = 0;
  std::optional<std::filesystem::path> moved_aside{};
  std::string out;
  std::string command = "rookery train";  // that goes on with it
};

Shown shown_of(const train::SwarmRun& run, const std::string& out, const std::string& command);

void say_what_starts(const Shown& run);
std::unique_ptr<observe::Progress> progress_for(const Shown& run);

// Also as JSON, if wanted. Returns the exit code.
int say_how_it_ended(const Shown& run, const train::RunOutcome& outcome, bool json);

}  // namespace rookery::cli
