#include "train/lone_view.h"

#include <thread>

#include "base/log.h"
#include "observe/computer.h"
#include "observe/memory.h"

namespace rookery::train {
namespace {

using dashboard::PeerView;
using dashboard::Phase;
using dashboard::View;

constexpr const char* kName = "peer-0";
constexpr double kBetween = 0.5;  // seconds
constexpr std::size_t kLogLines = 20;

std::optional<std::uint64_t> size_of(std::optional<Bytes> bytes) {
  return bytes && *bytes > 0 ? std::optional(static_cast<std::uint64_t>(*bytes)) : std::nullopt;
}

}  // namespace

LoneView::LoneView(dashboard::Dashboard& dashboard, std::size_t layers, const LonePlan& plan)
    : dashboard_(dashboard), activity_([&dashboard] { return dashboard.seconds(); }) {
  const Bytes resident = observe::resident_memory(), free = observe::available_memory();
  dashboard_.show([=, about = observe::describe_computer()](View& view, double seconds) {
    PeerView& peer = view.peer(kName);
    peer.state = PeerView::State::kTraining;
    peer.hardware = about;
    peer.cores = std::max(1u, std::thread::hardware_concurrency());
    peer.place = {.cluster = 0, .stage = 0, .begin = 0, .end = static_cast<std::uint32_t>(layers)};
    peer.resident = size_of(resident);
    peer.planned = size_of(plan.memory);
    peer.limit = size_of(plan.limit);
    if (free > 0) peer.available = size_of(resident + free);
    view.plan.emplace().clusters = 1;
    view.plan->predicted_step_seconds = plan.step_seconds;
    view.run.phase = Phase::kTraining;
    view.add_event(seconds, "began", "", "");
  });
}

void LoneView::step(const observe::StepMetrics& metrics) {
  dashboard_.show([metrics](View& view, double seconds) {
    view.add_step(metrics);
    view.peer(kName).stepped(seconds, static_cast<std::uint64_t>(metrics.step), metrics.step_seconds, 0);
  });
  if (dashboard_.seconds() - told_ >= kBetween) tell();
}

void LoneView::tell() {
  told_ = dashboard_.seconds();
  dashboard_.show([spans = activity_.take(), resident = observe::resident_memory(),
                   lines = log_lines_after(logged_, kLogLines)](View& view, double seconds) {
    view.add_spans(kName, spans, seconds);
    view.peer(kName).resident = static_cast<std::uint64_t>(resident);
    for (const std::string& line : lines) view.peer(kName).say(line);
  });
}

void LoneView::held() {
  // Whoever held it may have released it meanwhile.
  dashboard_.show([](View& view, double seconds) {
    if (view.run.phase != Phase::kPausing) return;
    view.run.phase = Phase::kPaused;
    view.add_event(seconds, "paused", "", "");
  });
  if (dashboard_.seconds() - told_ >= kBetween) tell();
}

void LoneView::released() {
  dashboard_.show([](View& view, double seconds) { view.add_event(seconds, "resumed", "", ""); });
}

void LoneView::saved(std::int64_t step) {
  dashboard_.show([step](View& view, double seconds) {
    view.add_event(seconds, "checkpoint", "", fmt::format("at step {}", step));
  });
}

void LoneView::finish(const observe::Summary&) { over(Phase::kEnded, ""); }

void LoneView::over(Phase phase, const std::string& why) {
  tell();
  dashboard_.show([=](View& view, double seconds) {
    view.run.why = why;
    if (view.run.phase == phase) return;  // it has been said
    view.run.phase = phase;
    view.peer(kName).state = PeerView::State::kEnded;
    if (phase == Phase::kFailed) view.peer(kName).why = why;
    view.add_event(seconds, name_of(phase), "", why);
  });
}

}  // namespace rookery::train
