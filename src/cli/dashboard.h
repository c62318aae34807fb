#pragma once

#include <memory>
#include <optional>
#include <string>

#include "cli/run_output.h"
#include "dashboard/dashboard.h"
#include "train/lone_view.h"
#include "train/swarm_view.h"

namespace rookery::cli {

// What somebody may ask of a run over its dashboard. Called on the dashboard's thread, and never wait.
struct Wishes {
  std::function<dashboard::Phase()> hold;  // returns what the run is then: paused, or about to be
  std::function<void()> release, save, stop;
};

// The dashboard of a run, and where it is, said on standard error; nothing if the settings want none.
std::unique_ptr<dashboard::Dashboard> dashboard_for(const Shown& run, Wishes wishes);

// The dashboard of a run of one peer, if there is to be one: for as long as this lasts.
class LoneDashboard {
 public:
  // Before the run trains, which outlives this, as the wishes do.
  LoneDashboard(train::Run& run, const Shown& shown, train::RunWishes& wishes, const train::LonePlan& plan);

  // Trains, and shows how that ended. Throws what it throws.
  train::RunOutcome show(const std::function<train::RunOutcome()>& train);

 private:
  std::unique_ptr<dashboard::Dashboard> dashboard_;
  train::LoneView* view_ = nullptr;  // the run has it
};

// The dashboard of a swarm, if there is to be one: for as long as this lasts.
class SwarmDashboard {
 public:
  // The run outlives this.
  SwarmDashboard(train::SwarmRun& run, const Shown& shown);

  // Trains, and shows how that ended. Throws what it throws.
  train::RunOutcome show(const std::function<train::RunOutcome()>& train);

 private:
  std::unique_ptr<dashboard::Dashboard> dashboard_;
  std::optional<train::SwarmView> view_;
};

}  // namespace rookery::cli
