#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "base/span.h"
#include "base/units.h"
#include "dashboard/dashboard.h"
#include "observe/activity.h"
#include "observe/metrics.h"
#include "train/run.h"

namespace rookery::train {

// What was expected of a run of one peer; what is not known is left out.
struct LonePlan {
  std::optional<double> step_seconds{};
  std::optional<Bytes> memory{};  // of the whole process
  std::optional<Bytes> limit{};   // that it was given
};

// Shows on a dashboard how a run of one peer goes. Lives on the thread that trains; the dashboard outlives it.
class LoneView final : public observe::Sink, public RunWatcher {
 public:
  LoneView(dashboard::Dashboard& dashboard, std::size_t layers, const LonePlan& plan);

  BeginSpan computing() { return activity_.computing(); }

  void step(const observe::StepMetrics& metrics) override;
  void finish(const observe::Summary& summary) override;

  void held() override;
  void released() override;
  void saved(std::int64_t step) override;

  // The run has come to its end, or has failed.
  void over(dashboard::Phase phase, const std::string& why);

 private:
  void tell();

  dashboard::Dashboard& dashboard_;
  observe::Activity activity_;
  double told_ = 0;           // when others were last told what it is doing,
  std::uint64_t logged_ = 0;  // and with which lines of the log
};

}  // namespace rookery::train
