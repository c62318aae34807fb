#pragma once

#include <functional>
#include <memory>
#include <string>

#include "dashboard/dashboard.h"
#include "observe/metrics.h"
#include "plan/swarm.h"
#include "swarm/coordinator.h"

namespace rookery::train {

// Shows on a dashboard what happens in a swarm. Lives where the coordinator does; the dashboard outlives it.
class SwarmView final : public swarm::Watcher {
 public:
  // `layers`: of the model. `measured`: the peers and their links, once there is a plan.
  SwarmView(dashboard::Dashboard& dashboard, std::size_t layers, std::function<const plan::Swarm&()> measured);

  void joined(const wire::Introduction& peer) override;
  void refused(const std::string& peer, const std::string& why) override;
  void left(const std::string& peer, const std::string& why) override;
  void ready(const std::string& peer, const wire::Ready& ready) override;
  void planned(const wire::Plan& plan) override;
  void replanned(const wire::Plan& plan) override;
  void began() override;
  void taken_up(const wire::Plan& plan) override;
  void introduced_again(const wire::Introduction& peer, const wire::Ready& ready) override;
  void relieved(const std::string& peer) override;
  void silent(const std::string& peer, const std::string& why) override;
  void returned(const std::string& peer) override;
  void stepped(const std::string& peer, const wire::StepReport& report) override;
  void active(const std::string& peer, const wire::Activity& activity) override;
  void ended(const std::string& peer, const wire::Ended& summary) override;
  void expelled(const std::string& peer, const std::string& why) override;
  void lost(const std::string& peer, const std::string& why) override;
  void held() override;
  void released() override;

  // An event, as it is written.
  void noted(const std::string& event, const std::string& peer, const std::string& text);

  // With what the plan has decided.
  void decided(const std::string& method, const std::string& schedule);

  // The run is over: it has come to its end, or to another one, or has failed.
  void over(dashboard::Phase phase, const std::string& why);

 private:
  using State = dashboard::PeerView::State;
  void set_state(const std::string& peer, State state, const std::string& why);
  void show_places(const wire::Plan& plan);
  void show_links(const wire::Plan& plan);

  dashboard::Dashboard& dashboard_;
  std::size_t layers_;
  std::function<const plan::Swarm&()> measured_;
  wire::Plan plan_{};
  bool has_begun_ = false;
};

// Passes steps on to a dashboard.
class DashboardSink final : public observe::Sink {
 public:
  // Which outlives it.
  explicit DashboardSink(dashboard::Dashboard& dashboard) : dashboard_(dashboard) {}

  void step(const observe::StepMetrics& metrics) override;
  void finish(const observe::Summary&) override {}

 private:
  dashboard::Dashboard& dashboard_;
};

}  // namespace rookery::train
