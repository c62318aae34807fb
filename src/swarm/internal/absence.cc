#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "swarm/internal/coordinator_core.h"

namespace rookery::swarm {
namespace {

constexpr Duration kSecondLook = std::chrono::seconds(3);  // when two have no link to each other

using net::Failure;
using net::LinkError;

}  // namespace

bool Coordinator::Core::may_return(const Seat& seat) const {
  return begun_ && !seat.gone && !seat.ended && seat.linked && rank_of(seat) < seats_.size();
}

void Coordinator::Core::expect_back(Seat& seat, const std::string& why, Time quiet_from) {
  seat.is_away = true;
  seat.quiet_from = quiet_from;
  tell([&] { watcher_.silent(seat.name(), why); });
  seat.patience.set(clock_.now() + options_.returning, [this, &seat, why] {
    if (!closed_ && !broken_) gone(seat, why);
  });
  judge(seat);
}

void Coordinator::Core::take_back(const std::shared_ptr<Seat>& seat, const wire::Returned& returned) {
  if (!begun_) refuse(*seat, "the run has not begun");
  const auto is_it = [&](const wire::PlannedPeer& place) {
    return place.contact.name == seat->name() && place.contact.fingerprint == seat->guest.key.bytes() && !place.empty;
  };
  const auto place = std::ranges::find_if(plan_->peers, is_it);
  const auto rank = static_cast<std::size_t>(place - plan_->peers.begin());
  if (place == plan_->peers.end() || seats_[rank]->gone || !seats_[rank]->linked ||
      returned.generation > plan_->generation || expelled_.contains(seat->guest.key)) {
    refuse(*seat, "the others have gone on without it; it may join again");
  }
  if (!seats_[rank]->ready) check(*seat, returned.ready);  // this coordinator has not seen it yet
  const std::shared_ptr<Seat> before = std::exchange(seats_[rank], seat);
  before->patience.cancel();
  before->doubt.cancel();
  seat->follow(*before);
  if (!seat->ready) introduce_again(*seat, returned);
  before->is_replaced = true;
  before->close(LinkError(Failure::kLate, "", "has made another link"));
  --strangers_;
  seat->patience.cancel();
  relay_.serve(seat->link, seat->guest);
  watcher_.returned(seat->name());
  seat->say(wire::Known{.step = seat->last_step});
  if (returned.generation < plan_->generation) seat->say(*plan_);
  if (covered_) seat->say(wire::Covered{.step = *covered_});
  tell_of_holding(*seat, returned.generation < plan_->generation ? plan_->peers[rank].from : seat->last_step);
  if (stopping_) seat->say(wire::Stop{.reason = "the run is to end", .moves = moving_});
  if (end_) seat->say(wire::EndAt{.step = *end_});
  goes_on();
  changed_.notify();
}

void Coordinator::Core::introduce_again(Seat& seat, const wire::Returned& returned) {
  seat.introduction->memory = returned.introduction.memory;
  seat.introduction->stands_in = returned.introduction.stands_in;
  seat.ready = returned.ready;
  watcher_.introduced_again(*seat.introduction, *seat.ready);
}

void Coordinator::Core::heard(Seat& seat, const wire::Missed& missed) {
  if (!begun_ || !seat.linked) throw wire::WireError("missed somebody out of turn");
  const auto found = std::ranges::find_if(seats_, [&](const auto& other) { return other->name() == missed.who; });
  if (found == seats_.end() || (*found)->gone || (*found)->ended || found->get() == &seat) return;
  if (plan_->peers[rank_of(**found)].came != missed.came) return;  // another one of that name
  seat.misses.insert(missed.who);
  watcher_.missed(missed.who, seat.name(), missed.text);
  judge(**found);
}

internal::Seat* Coordinator::Core::who_misses(const Seat& seat) const {
  const auto found = std::ranges::find_if(
      seats_, [&](const auto& other) { return !other->gone && !other->ended && other->misses.contains(seat.name()); });
  return found == seats_.end() ? nullptr : found->get();
}

void Coordinator::Core::judge(Seat& seat) {
  const Seat* witness = who_misses(seat);
  if (seat.gone || seat.ended || witness == nullptr) return;
  if (seat.is_quiet(clock_.now())) return part_with(seat, fmt::format("is silent, to {} as well", witness->name()));
  seat.doubt.set(seat.is_away ? seat.quiet_from : clock_.now() + kSecondLook, [this, &seat] {
    if (!closed_ && !broken_) look_again(seat);
  });
}

void Coordinator::Core::look_again(Seat& seat) {
  Seat* witness = who_misses(seat);
  if (seat.gone || seat.ended || witness == nullptr) return;
  if (seat.is_quiet(clock_.now())) return part_with(seat, fmt::format("is silent, to {} as well", witness->name()));
  if (witness->is_quiet(clock_.now()) || !seat.misses.contains(witness->name())) {
    return part_with(*witness, fmt::format("has no link to {} any more", seat.name()));
  }
  const auto cuts = [&](const Seat& one) {
    return std::ranges::count_if(seats_, [&](const auto& other) {
      return !other->gone && (other->misses.contains(one.name()) || one.misses.contains(other->name()));
    });
  };
  const bool is_witness = std::pair(cuts(*witness), rank_of(*witness)) > std::pair(cuts(seat), rank_of(seat));
  const Seat& stays = is_witness ? seat : *witness;
  part_with(is_witness ? *witness : seat, fmt::format("has no link to {} any more", stays.name()));
}

void Coordinator::Core::part_with(Seat& seat, const std::string& why) {
  if (seat.is_away) return gone(seat, why);
  seat.close(LinkError(Failure::kLate, "", why));  // and so it is gone
}

void Coordinator::Core::gone(Seat& seat, const std::string& why) {
  seat.gone = true;
  seat.is_away = false;
  seat.patience.cancel();
  seat.doubt.cancel();
  for (auto* others : {&latecomers_, &parked_}) {
    std::erase_if(*others, [&](const auto& other) { return other.get() == &seat; });
  }
  if (seat.introduction && seat.introduction->stands_in) {  // whoever it belongs to may be asked again
    for (const auto& other : seats_) {
      if (other->introduction && other->introduction->host == seat.introduction->host) other->stands_in = false;
    }
  }
  const auto place = std::ranges::find_if(seats_, [&](const auto& other) { return other.get() == &seat; });
  if (place == seats_.end() && seat.is_late && !seat.refused) tell([&] { watcher_.left(seat.name(), why); });
  if (place == seats_.end() || seat.ended) return changed_.notify();
  if (!plan_) {
    if (!seat.refused) tell([&] { watcher_.left(seat.name(), why); });
    seats_.erase(place);
    if (options_.only_these && !is_anew() && !seat.refused) {
      give_up(fmt::format("{} cannot take part: {}", seat.name(), why));
    }
    if (is_anew()) plan_if_all_are_ready();
    if (is_anew() && seats_.empty() && awaited_.empty()) give_up("nobody has come again for another plan");
    return changed_.notify();
  }
  if (is_anew() && !begun_ && !stopping_) {  // before all had begun by the plan for which they came: they come again
    tell([&] { watcher_.left(seat.name(), why); });
    return leave_plan();
  }
  if (goes_on_without(seat, why)) {
    // By another plan.
  } else if (can_go_back_without(seat)) {
    tell([&] { watcher_.lost(seat.name(), why); });
    go_back();
  } else if (begun_ || !stopping_) {
    fail(seat.name(), why);  // who was told to stop before the beginning just leaves
  }
  agree_on_the_end();
  agree_on_holding();
  changed_.notify();
}

bool Coordinator::Core::goes_on_without(Seat& seat, const std::string& why) {
  if (!begun_ || failure_ || !options_.goes_on) return false;
  const std::size_t rank = rank_of(seat);
  wire::Plan next = plan_without(rank);
  for (std::size_t other = 0; other < seats_.size(); ++other) {
    if (next.peers[other].cluster != next.peers[rank].cluster) continue;
    seats_[other]->held = 0;
    if (seats_[other]->linked && !seats_[other]->is_away)
      seats_[other]->patience.cancel();  // nobody gives it anything for now
  }
  if (!can_do_without(next)) return false;
  tell([&] { watcher_.lost(seat.name(), why); });
  announce_next(std::move(next), rank);
  settle_latecomers();
  expect_stand_in();
  have_second_thoughts();
  return true;
}

bool Coordinator::Core::can_go_back_without(const Seat& seat) const {
  if (!begun_ || failure_ || !options_.goes_back || !options_.anew || (stopping_ && !moving_)) return false;
  const auto is_left = [&](const auto& other) {
    return other.get() != &seat && other->ready && !other->gone && (moving_ || !other->ended);
  };
  if (std::ranges::none_of(seats_, is_left) && std::ranges::none_of(latecomers_, is_left)) return false;
  return moving_ || options_.goes_back(*plan_);
}

void Coordinator::Core::go_back() {
  if (std::exchange(moving_, true)) return;  // they are on their way already
  tell([&] { watcher_.goes_back(); });
  end_all("no whole copy is left, and there is to be another plan");
}

wire::Plan Coordinator::Core::plan_without(std::size_t rank) const {
  wire::Plan next = *plan_;
  next.peers[rank].here = false;
  next.peers[rank].empty = true;
  for (wire::PlannedPeer& mate : next.peers) {
    if (mate.cluster == next.peers[rank].cluster) mate.restores = mate.rewinds = false;
  }
  return next;
}

}  // namespace rookery::swarm
