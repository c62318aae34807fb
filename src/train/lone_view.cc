#include "train/lone_view.h"

#include <thread>

#include "observe/computer.h"
#include "observe/memory.h"

namespace rookery::train {
namespace {

using dashboard::PeerView;
using dashboard::Phase;
using dashboard::View;

constexpr const char* kName = "peer-0";
constexpr double kBetween = 0.5;  // seconds

}  // namespace

LoneView::LoneView(dashboard::Dashboard& dashboard, std::size_t layers)
    : dashboard_(dashboard), activity_([&dashboard] { return dashboard.seconds(); }) {
  dashboard_.show([layers, about = observe::describe_computer()](View& view, double seconds) {
    PeerView& peer = view.peer(kName);
    peer.state = PeerView::State::kTraining;
    peer.hardware = about;
    peer.cores = std::max(1u, std::thread::hardware_concurrency());
    peer.place = {.cluster = 0, .stage = 0, .begin = 0, .end = static_cast<std::uint32_t>(layers)};
    view.plan.emplace().clusters = 1;
    view.run.phase = Phase::kTraining;
    view.add_event(seconds, "began", "", "");
  });
}

void LoneView::step(const observe::StepMetrics& metrics) {
  dashboard_.show([metrics](View& view, double seconds) {
    view.add_step(metrics);
    view.peer(kName).stepped(seconds, static_cast<std::uint64_t>(metrics.step), metrics.step_seconds, 0);
  });
  const double now = dashboard_.seconds();
  if (now - told_ < kBetween) return;
  told_ = now;
  dashboard_.show([spans = activity_.take(), resident = observe::resident_memory()](View& view, double seconds) {
    view.add_spans(kName, spans, seconds);
    view.peer(kName).resident = static_cast<std::uint64_t>(resident);
  });
}

void LoneView::finish(const observe::Summary&) {
  dashboard_.show([](View& view, double seconds) {
    view.run.phase = Phase::kEnded;
    view.peer(kName).state = PeerView::State::kEnded;
    view.add_event(seconds, "ended", "", "");
  });
}

}  // namespace rookery::train
