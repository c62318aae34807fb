#include "cli/dashboard.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/log.h"
#include "net/tcp/route.h"
#include "observe/metrics.h"
#include "observe/run_files.h"
#include "train/run_directory.h"
#include "train/swarm_run.h"
#include "wire/contact.h"

namespace rookery::cli {
namespace {

using dashboard::Command;
using dashboard::Phase;
using dashboard::View;

// By which others reach whoever listens on all addresses of this computer.
std::vector<std::string> dialable_hosts(const std::string& host) {
  std::vector<std::string> hosts;
  for (const std::string& address : net::dialable_addresses(net::join_host_port(host, 0), wire::kMaxAddresses)) {
    hosts.push_back(net::parse_host_port(address).host);
  }
  return hosts;
}

// Why a wish cannot be fulfilled now, if so.
std::optional<std::string> objection(Command command, Phase phase) {
  const bool trains = phase == Phase::kTraining, is_held = phase == Phase::kPaused || phase == Phase::kPausing;
  if (phase == Phase::kEnded || phase == Phase::kFailed) return "the run is over";
  switch (command) {
    case Command::kPause:
      return trains ? std::nullopt : std::optional<std::string>("there is nothing to pause now");
    case Command::kResume:
      return is_held ? std::nullopt : std::optional<std::string>("the run is not paused");
    case Command::kCheckpoint:
      return trains || is_held ? std::nullopt : std::optional<std::string>("there is nothing to save yet");
    case Command::kStop:
      break;
  }
  return std::nullopt;
}

// What a run that goes on has done before.
void show_past(dashboard::Dashboard& shown, const std::filesystem::path& metrics) {
  shown.show([metrics](View& view, double) {
    try {
      observe::read_metrics(metrics, [&](const observe::StepMetrics& step) { view.add_step(step); });
    } catch (const Error& error) {
      spdlog::warn("what the run has done before is not shown: {}", error.what());
    }
  });
}

}  // namespace

std::unique_ptr<dashboard::Dashboard> dashboard_for(const Shown& run, Wishes wishes) {
  const config::Settings& s = run.settings;
  if (s.dashboard.listen == "off") return nullptr;
  dashboard::DashboardOptions options{.listen = s.dashboard.listen,
                                      .certificate_file = s.dashboard.certificate,
                                      .key_file = s.dashboard.key,
                                      .dialable = dialable_hosts};
  const train::RunDirectory directory(run.out);
  options.entrance_file = directory.dashboard();
  options.run = {.name = s.name,
                 .model = std::string(run.model.kind()),
                 .data = run.data.info().description,
                 .parameters = run.model.parameter_count(),
                 .method = s.swarm.peers > 1 ? s.sync.method : "none",
                 .schedule = s.swarm.peers > 1 ? s.pipeline.schedule : "",
                 .first_step = run.first_step,
                 .step = run.first_step,
                 .steps = s.train.steps,
                 .why = s.swarm.peers > 1 ? "waiting for peers" : ""};
  auto shown = std::make_unique<dashboard::Dashboard>(
      std::move(options), [wishes = std::move(wishes)](Command command, View& view) -> std::optional<std::string> {
        if (auto why_not = objection(command, view.run.phase)) return why_not;
        if (command == Command::kPause) view.run.phase = wishes.hold();
        if (command == Command::kResume) {
          view.run.phase = Phase::kTraining;
          wishes.release();
        }
        if (command == Command::kCheckpoint) wishes.save();
        if (command == Command::kStop) wishes.stop();
        return std::nullopt;
      });
  if (run.first_step > 0) show_past(*shown, directory.metrics());
  for (std::size_t i = 0; i < shown->urls().size(); ++i) {
    fmt::print(stderr, "{} {}\n", i == 0 ? "dashboard:" : "or:       ", shown->urls()[i]);
  }
  if (!shown->fingerprint().empty()) {
    fmt::print(stderr, "its certificate has the fingerprint {}\n", shown->fingerprint());
  }
  return shown;
}

LoneDashboard::LoneDashboard(train::Run& run, const Shown& shown, train::RunWishes& wishes,
                             const train::LonePlan& plan) {
  dashboard_ = dashboard_for(shown, {.hold =
                                         [&wishes] {
                                           wishes.hold = true;
                                           return Phase::kPausing;
                                         },
                                     .release = [&wishes] { wishes.hold = false; },
                                     .save = [&wishes] { wishes.save = true; },
                                     .stop = request_stop});
  if (!dashboard_) return;
  auto view = std::make_unique<train::LoneView>(*dashboard_, run.model().size(), plan);
  view_ = view.get();
  run.watch(view->computing());
  run.add_watcher(*view);
  run.add_sink(std::move(view));
}

train::RunOutcome LoneDashboard::show(const std::function<train::RunOutcome()>& train) {
  if (view_ == nullptr) return train();
  try {
    train::RunOutcome outcome = train();
    view_->over(Phase::kEnded, outcome.interrupted ? "it was stopped" : "");
    return outcome;
  } catch (const std::exception& error) {
    view_->over(Phase::kFailed, error.what());
    throw;
  }
}

SwarmDashboard::SwarmDashboard(train::SwarmRun& run, const Shown& shown) {
  using Wish = train::SwarmRun::Wish;
  dashboard_ = dashboard_for(shown, {.hold =
                                         [&run] {
                                           run.ask_for(Wish::kHold);
                                           return Phase::kPausing;
                                         },
                                     .release = [&run] { run.ask_for(Wish::kRelease); },
                                     .save = [&run] { run.ask_for(Wish::kSave); },
                                     .stop = request_stop});
  if (!dashboard_) return;
  view_.emplace(*dashboard_, run.blueprint().model->size(), [&run]() -> const plan::Swarm& { return run.measured(); });
  run.add_watcher(*view_);
  run.show_with([this] { return dashboard_->brief(); });
  run.add_sink(std::make_unique<train::DashboardSink>(*dashboard_));
  run.pass_notes_to([this, &run](const std::string& event, const std::string& peer, const std::string& text) {
    view_->noted(event, peer, text);
    if (event == "planned") view_->decided(run.decided().sync.method, run.decided().pipeline.schedule);
  });
}

train::RunOutcome SwarmDashboard::show(const std::function<train::RunOutcome()>& train) {
  if (!view_) return train();
  try {
    train::RunOutcome outcome = train();
    view_->over(Phase::kEnded, outcome.interrupted ? "it was stopped" : "");
    return outcome;
  } catch (const std::exception& error) {
    view_->over(Phase::kFailed, error.what());
    throw;
  }
}

}  // namespace rookery::cli
