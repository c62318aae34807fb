#include <algorithm>

#include "swarm/internal/coordinator_core.h"

namespace rookery::swarm {

void Coordinator::Core::restore(std::uint32_t cluster) {
  const auto is_ready = [](const Seat& seat) { return !seat.is_away && (seat.is_late ? seat.linked : seat.paused); };
  if (stopping_ || is_whole(cluster) || !all_of_cluster(cluster, is_ready)) return;
  for (std::size_t rank = 0; rank < seats_.size(); ++rank) {
    if (plan_->peers[rank].cluster != cluster) continue;
    seats_[rank]->expect_by(clock_.now() + options_.restoration, "get what belongs to its place");
  }
  enter(cluster, false);
}

void Coordinator::Core::heard(Seat& seat, const wire::Paused& paused) {
  const std::uint32_t cluster = plan_ ? plan_->peers[rank_of(seat)].cluster : 0;
  if (!begun_ || paused.generation > plan_->generation) throw wire::WireError("paused out of turn");
  if (is_whole(cluster) || plan_->peers[rank_of(seat)].restores) return;  // it has not heard of that yet
  seat.paused = true;
  restore(cluster);
  changed_.notify();
}

void Coordinator::Core::heard(Seat& seat, const wire::Restored& restored) {
  const std::size_t rank = rank_of(seat);
  if (!seat.linked || restored.generation > plan_->generation) throw wire::WireError("was restored out of turn");
  const wire::PlannedPeer& place = plan_->peers[rank];
  if (!place.restores || restored.generation != place.since) return;  // somebody else was lost in the meantime
  seat.patience.cancel();
  seat.restored = restored.generation;
  watcher_.restored(seat.name());
  const auto is_done = [&](const Seat& other) { return other.restored == place.since; };
  if (!stopping_ && all_of_cluster(place.cluster, is_done)) enter(place.cluster, true);
}

void Coordinator::Core::enter(std::uint32_t cluster, bool restored) {
  wire::Plan next = *plan_;
  const bool was_whole = is_whole(cluster);
  std::optional<std::size_t> any;
  const bool rewinds = restored ? next.peers[rank_in(cluster)].rewinds : can_rewind(next);
  for (std::size_t rank = 0; rank < seats_.size(); ++rank) {
    if (next.peers[rank].cluster != cluster) continue;
    any = rank;
    if (rewinds) {
      rewind(next.peers[rank], restored);
    } else if (!options_.enter(next.peers[rank], last_step_, restored)) {
      return;  // it waits for the end, which is near
    }
  }
  if (rewinds && restored) {
    last_step_ = next.peers[*any].from;
    covered_.reset();  // who is new has no copies yet
  }
  announce_next(std::move(next), *any);
  for (std::size_t rank = 0; rank < seats_.size(); ++rank) {
    if (plan_->peers[rank].cluster != cluster) continue;
    seats_[rank]->paused = false;
    if (!restored) watcher_.restores(seats_[rank]->name());
    if (!is_whole(cluster) || was_whole) continue;
    seats_[rank]->is_late = false;
    seats_[rank]->last_step = plan_->peers[rank].from;
    tell_of_holding(*seats_[rank], plan_->peers[rank].from);
    watcher_.entered(plan_->peers[rank]);
  }
  settle_latecomers();
  have_second_thoughts();
}

std::size_t Coordinator::Core::rank_in(std::uint32_t cluster) const {
  const auto found = std::ranges::find(plan_->peers, cluster, &wire::PlannedPeer::cluster);
  return static_cast<std::size_t>(found - plan_->peers.begin());
}

void Coordinator::Core::rewind(wire::PlannedPeer& place, bool restored) const {
  place.rewinds = true;
  place.restores = !restored;
  if (restored) {
    place.here = true;
  } else {
    place.from = *covered_;
  }
}

void Coordinator::Core::heard(Seat& seat, const wire::Held& held) {
  if (!begun_ || !seat.linked) throw wire::WireError("holds a copy out of turn");
  const std::uint32_t cluster = plan_->peers[rank_of(seat)].cluster;
  if (!is_whole(cluster)) return;  // it was on its way when somebody was lost
  seat.held = held.step;
  const auto holds = [&](const Seat& other) { return other.held == held.step; };
  if (!all_of_cluster(cluster, holds)) return;
  covered_ = held.step;
  remember();
  for (std::size_t rank = 0; rank < seats_.size(); ++rank) {
    if (plan_->peers[rank].cluster == cluster) seats_[rank]->say(wire::Covered{.step = held.step});
  }
}

}  // namespace rookery::swarm
