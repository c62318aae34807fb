#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "swarm/internal/coordinator_core.h"

namespace rookery::swarm {
namespace {

constexpr std::size_t kSuspicionsOfOne = 3;  // that count, where there is nobody else

using net::Failure;
using net::LinkError;

}  // namespace

void Coordinator::Core::heard(Seat& seat, const wire::Suspected& suspected) {
  if (!begun_ || !seat.linked) throw wire::WireError("suspected somebody out of turn");
  const auto found = std::ranges::find_if(
      seats_, [&](const auto& other) { return other->name() == suspected.culprit && !other->gone && !other->ended; });
  if (found == seats_.end() || stopping_) return;
  Seat& culprit = **found;
  const std::uint32_t by = plan_->peers[rank_of(seat)].cluster;
  if (by == plan_->peers[rank_of(culprit)].cluster) throw wire::WireError("suspected its own cluster");
  std::deque<std::uint64_t>& times = culprit.suspected_by[by];
  times.push_back(last_step_);
  if (times.size() > kSuspicionsOfOne) times.pop_front();
  forget_old_suspicions(culprit);
  if (culprit.accusers.insert(seat.name()).second) {
    watcher_.suspected(culprit.name(), seat.name(), suspected.text);
  }
  if (is_convicted(culprit)) expel(culprit, suspected.text);
}

// What happens to anybody once in a while is not to add up.
void Coordinator::Core::forget_old_suspicions(Seat& culprit) const {
  if (!options_.suspicions_last) return;
  const std::uint64_t steps = options_.suspicions_last();
  for (auto& [cluster, times] : culprit.suspected_by) {
    while (!times.empty() && times.front() + steps < last_step_) times.pop_front();
  }
}

bool Coordinator::Core::is_convicted(const Seat& culprit) const {
  std::set<std::uint32_t> others;
  for (const wire::PlannedPeer& peer : plan_->peers) {
    if (is_whole(peer.cluster)) others.insert(peer.cluster);
  }
  others.erase(plan_->peers[rank_of(culprit)].cluster);
  std::size_t accusing = 0, times = 0;
  for (const auto& [cluster, steps] : culprit.suspected_by) {
    if (!others.contains(cluster) || steps.empty()) continue;
    ++accusing;
    times += steps.size();
  }
  return others.size() == 1 ? times >= kSuspicionsOfOne : 2 * accusing > others.size();
}

void Coordinator::Core::expel(Seat& culprit, const std::string& why) {
  if (!expelled_.insert(culprit.guest.key).second) return;
  remember();
  watcher_.expelled(culprit.name(), why);
  if (culprit.is_away) return gone(culprit, why);
  culprit.close(LinkError(Failure::kRefused, "", fmt::format("was expelled, because it {}", why)));
}

}  // namespace rookery::swarm
