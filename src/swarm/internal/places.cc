#include <algorithm>

#include "swarm/internal/coordinator_core.h"

namespace rookery::swarm {
namespace {

constexpr std::size_t kMostSpares = 64;  // who wait for a place

using net::Failure;
using net::LinkError;

}  // namespace

bool Coordinator::Core::is_free(std::size_t rank) const {
  const Seat& seat = *seats_[rank];
  return !plan_->peers[rank].here && (seat.gone || seat.ended);
}

bool Coordinator::Core::may_be_spare() const {
  return (begun_ || is_anew()) && !stopping_ && options_.fits && latecomers_.size() < kMostSpares;
}

bool Coordinator::Core::somebody_links_up() const {
  return std::ranges::any_of(seats_, [&](const auto& seat) { return is_entering(*seat) && !seat->linked; });
}

void Coordinator::Core::settle_latecomers() {
  if (!begun_) return;
  const std::vector<std::shared_ptr<Seat>> waiting = latecomers_;
  for (const auto& seat : waiting) {
    if (stopping_ || somebody_links_up()) return;
    if (seat->ready && !seat->gone && take_place(seat)) std::erase(latecomers_, seat);
  }
  relieve_stand_in();
}

bool Coordinator::Core::take_place(const std::shared_ptr<Seat>& seat) {
  const wire::Contact contact = contact_of(*seat);
  const auto was_there = [&](const wire::PlannedPeer& peer) {
    return peer.contact.name == contact.name || peer.contact.fingerprint == contact.fingerprint;
  };
  const bool comes_back = std::ranges::any_of(plan_->peers, was_there);
  for (std::size_t rank = 0; rank < seats_.size(); ++rank) {
    const bool suits = comes_back ? was_there(plan_->peers[rank]) : true;
    if (!suits || !is_free(rank) || !options_.fits(*plan_, rank, means_of(*seat))) continue;
    wire::Plan next = *plan_;
    next.peers[rank].contact = contact;
    next.peers[rank].empty = false;
    next.peers[rank].came = next.generation + 1;
    next.peers[rank].host = seat->introduction->host;
    if (std::ranges::count_if(next.peers, was_there) > 1) break;  // the name of one, the key of another
    seats_[rank]->close(LinkError(Failure::kLate, "", "somebody else has its place"));
    for (const auto& other : seats_) other->misses.erase(contact.name);
    seats_[rank] = seat;
    seat->expect_by(clock_.now() + options_.links, "link up with the others");
    announce_next(std::move(next), rank);
    return true;
  }
  return false;
}

void Coordinator::Core::relieve_stand_in() {
  if (!begun_ || stopping_ || somebody_links_up()) return;
  for (std::size_t rank = 0; rank < seats_.size(); ++rank) {
    Seat& seat = *seats_[rank];
    if (seat.gone || seat.ended || !seat.introduction->stands_in || !plan_->peers[rank].here) continue;
    const auto is_successor = [&](const auto& other) {
      return other->ready && !other->gone && !other->introduction->stands_in &&
             options_.fits(*plan_, rank, means_of(*other));
    };
    if (!std::ranges::any_of(latecomers_, is_successor) || !can_do_without(plan_without(rank))) continue;
    tell([&] { watcher_.relieved(seat.name()); });
    return part_with(seat, "stood in, and somebody has come for its place");
  }
}

void Coordinator::Core::expect_stand_in() {
  if (!options_.stands_in) return;
  // A lone cluster goes back for a stand-in, and once more for whoever relieves it: somebody else may still come.
  const bool is_lone = options_.rewinds && options_.rewinds(*plan_);
  stand_in_.set(clock_.now() + (is_lone ? 4 : 1) * options_.stand_in, [this] {
    if (!closed_ && !broken_ && !stopping_) ask_to_stand_in();
  });
}

void Coordinator::Core::ask_to_stand_in() {
  for (std::size_t place = 0; place < seats_.size(); ++place) {
    if (!is_free(place)) continue;
    expect_stand_in();  // for the next one, or if it does not come
    const auto is_spare = [&](const auto& seat) {
      return !seat->ready || options_.fits(*plan_, place, means_of(*seat));
    };
    if (std::ranges::any_of(latecomers_, is_spare) || somebody_links_up()) return;
    std::optional<std::size_t> best;
    for (std::size_t by = 0; by < seats_.size(); ++by) {
      const Seat& seat = *seats_[by];
      const bool can = seat.linked && !seat.gone && !seat.ended && !seat.is_away && !seat.stands_in;
      if (!can || !options_.stands_in(*plan_, place, by)) continue;
      if (!best || plan_->peers[by].cluster == plan_->peers[place].cluster) best = by;
    }
    if (!best) continue;
    seats_[*best]->stands_in = true;
    seats_[*best]->say(wire::StandIn{});
    return tell([&] { watcher_.stands_in(seats_[*best]->name()); });
  }
}

}  // namespace rookery::swarm
