#pragma once

#include <vector>

#include "swarm/coordinator.h"

namespace rookery::swarm {

// Passes on what happens to several who watch, in the order in which they were added. They outlive this.
class Watchers final : public Watcher {
 public:
  void add(Watcher& watcher) { watchers_.push_back(&watcher); }

  void joined(const wire::Introduction& peer) override { all(&Watcher::joined, peer); }
  void ready(const std::string& peer, const wire::Ready& ready) override { all(&Watcher::ready, peer, ready); }
  void refused(const std::string& peer, const std::string& why) override { all(&Watcher::refused, peer, why); }
  void left(const std::string& peer, const std::string& why) override { all(&Watcher::left, peer, why); }
  void planned(const wire::Plan& plan) override { all(&Watcher::planned, plan); }
  void replanned(const wire::Plan& plan) override { all(&Watcher::replanned, plan); }
  void began() override { all(&Watcher::began); }
  void taken_up(const wire::Plan& plan) override { all(&Watcher::taken_up, plan); }
  void silent(const std::string& peer, const std::string& why) override { all(&Watcher::silent, peer, why); }
  void returned(const std::string& peer) override { all(&Watcher::returned, peer); }
  void introduced_again(const wire::Introduction& peer, const wire::Ready& ready) override {
    all(&Watcher::introduced_again, peer, ready);
  }
  void stepped(const std::string& peer, const wire::StepReport& report) override {
    all(&Watcher::stepped, peer, report);
  }
  void stands_in(const std::string& peer) override { all(&Watcher::stands_in, peer); }
  void relieved(const std::string& peer) override { all(&Watcher::relieved, peer); }
  void restores(const std::string& peer) override { all(&Watcher::restores, peer); }
  void restored(const std::string& peer) override { all(&Watcher::restored, peer); }
  void entered(const wire::PlannedPeer& peer) override { all(&Watcher::entered, peer); }
  void evaluated(const std::string& peer, const wire::Evaluated& evaluation) override {
    all(&Watcher::evaluated, peer, evaluation);
  }
  void ended(const std::string& peer, const wire::Ended& summary) override { all(&Watcher::ended, peer, summary); }
  void saved(const std::string& peer, std::uint64_t step) override { all(&Watcher::saved, peer, step); }
  void suspected(const std::string& culprit, const std::string& by, const std::string& why) override {
    all(&Watcher::suspected, culprit, by, why);
  }
  void expelled(const std::string& peer, const std::string& why) override { all(&Watcher::expelled, peer, why); }
  void active(const std::string& peer, const wire::Activity& activity) override {
    all(&Watcher::active, peer, activity);
  }
  void held() override { all(&Watcher::held); }
  void released() override { all(&Watcher::released); }
  void stuck() override { all(&Watcher::stuck); }
  void moves() override { all(&Watcher::moves); }
  void goes_back() override { all(&Watcher::goes_back); }
  void moved(std::uint64_t step) override { all(&Watcher::moved, step); }
  void missed(const std::string& who, const std::string& by, const std::string& why) override {
    all(&Watcher::missed, who, by, why);
  }
  void lost(const std::string& peer, const std::string& why) override { all(&Watcher::lost, peer, why); }

  // What was saved can be given away only once: to the first.
  bool keep(std::uint64_t step, const std::filesystem::path& folder) override {
    return watchers_.empty() || watchers_.front()->keep(step, folder);
  }

 private:
  template <typename... Parameters, typename... Arguments>
  void all(void (Watcher::*what)(Parameters...), const Arguments&... arguments) {
    for (Watcher* watcher : watchers_) (watcher->*what)(arguments...);
  }

  std::vector<Watcher*> watchers_;
};

}  // namespace rookery::swarm
