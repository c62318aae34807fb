#pragma once

#include <chrono>

#include "base/span.h"
#include "dashboard/dashboard.h"
#include "observe/activity.h"
#include "observe/metrics.h"

namespace rookery::train {

// Shows on a dashboard how a run of one peer goes. Lives on the thread that trains; the dashboard outlives it.
class LoneView final : public observe::Sink {
 public:
  LoneView(dashboard::Dashboard& dashboard, std::size_t layers);

  BeginSpan computing() { return activity_.computing(); }

  void step(const observe::StepMetrics& metrics) override;
  void finish(const observe::Summary& summary) override;

 private:
  dashboard::Dashboard& dashboard_;
  observe::Activity activity_;
  double told_ = 0;  // when others were last told what it is doing
};

}  // namespace rookery::train
