#include <algorithm>

#include <fmt/format.h>

#include "swarm/internal/coordinator_core.h"

namespace rookery::swarm {
namespace {

constexpr Duration kDismissal = std::chrono::seconds(10);  // for those who wait to end, when all others have

using net::Failure;
using net::LinkError;

}  // namespace

void Coordinator::Core::stop(const std::string& reason) {
  moving_ = false;
  end_all(reason);
}

void Coordinator::Core::end_all(const std::string& reason) {
  if (stopping_) return;
  stopping_ = true;
  if (begun_) tell([&] { remember(); });
  goes_on();
  const LinkError no_part(moving_ ? Failure::kClosed : Failure::kRefused, "", moving_ ? reason : "the run is over");
  for (const auto& seat : latecomers_) {
    if (!moving_) seat->close(no_part);
  }
  for (const auto& seat : seats_) {
    const bool is_entering_now = plan_ && is_entering(*seat);
    if (!moving_ || !is_entering_now || seat->linked) seat->say(wire::Stop{.reason = reason, .moves = moving_});
    if (is_entering_now) seat->close(no_part);
  }
  changed_.notify();
}

void Coordinator::Core::heard(Seat& seat, const wire::Halted& halted) {
  if (!(stopping_ || dismissed_) || !begun_ || seat.halted) throw wire::WireError("halted out of turn");
  seat.halted = halted.step;
  agree_on_the_end();
}

void Coordinator::Core::agree_on_the_end() {
  if (!stopping_ || end_) return;
  std::uint64_t last = 0;
  for (const auto& seat : seats_) {
    if (seat->ended || seat->gone || waits(*seat)) continue;
    if (!seat->halted) return;
    last = std::max(last, *seat->halted);
  }
  end_ = last;
  for (const auto& seat : seats_) {
    if (!seat->ended && !seat->gone) seat->say(wire::EndAt{.step = last});
  }
}

void Coordinator::Core::heard(Seat& seat, const wire::Ended& summary) {
  if (!begun_ || seat.ended) throw wire::WireError("ended out of turn");
  seat.ended = true;
  watcher_.ended(seat.name(), summary);
  agree_on_the_end();
  agree_on_holding();
  changed_.notify();
}

void Coordinator::Core::heard(Seat& seat, const wire::Failed& failed) {
  if (rank_of(seat) == seats_.size() || !plan_) refuse(seat, failed.text);  // it could not do what it was asked for
  seat.ended = true;
  const bool is_own = failed.culprit.empty();
  if (goes_on_without(seat, failed.text)) {
    seat.gone = true;
    seat.close(LinkError(Failure::kLate, "", "the others go on without it"));
  } else if (!is_own && can_go_back_without(seat)) {  // it could not go on without somebody who is lost
    go_back();
  } else if (begun_ || !stopping_) {  // who is told to stop before the beginning has nothing to lose
    fail(is_own ? seat.name() : failed.culprit, failed.text, is_own ? "could not go on" : "was lost");
  }
  agree_on_the_end();
  agree_on_holding();
  changed_.notify();
}

void Coordinator::Core::has_ended(Seat& seat) {
  seat.ended = true;
  seat.is_away = false;
  seat.patience.cancel();
  agree_on_the_end();
  changed_.notify();
}

bool Coordinator::Core::finished() const {
  if (broken_ || closed_) return true;
  if (!plan_) return stopping_;
  if (dismissed_ && clock_.now() >= *dismissed_ + kDismissal) return true;
  return std::ranges::all_of(seats_, [&](const auto& seat) { return seat->is_done(); });
}

void Coordinator::Core::dismiss_who_waits() {
  if (!begun_ || dismissed_) return;
  const auto has_nothing_to_do = [&](const auto& seat) { return seat->is_done() || waits(*seat); };
  if (!std::ranges::all_of(seats_, has_nothing_to_do)) {
    vacant_since_.reset();
    return;
  }
  const auto has_ended = [](const auto& seat) { return seat->ended && !seat->gone; };
  if (!stopping_ && std::ranges::none_of(seats_, has_ended)) {  // they wait for who comes
    if (!vacant_since_) vacant_since_ = clock_.now();
    deadline_ = *vacant_since_ + options_.vacancy;
    return;
  }
  dismissed_ = clock_.now();
  deadline_ = *dismissed_ + kDismissal;
  for (const auto& seat : seats_) {
    if (seat->is_done()) continue;
    if (!stopping_) seat->say(wire::Stop{.reason = "the run is over"});
    if (!end_) seat->say(wire::EndAt{.step = last_step_});
  }
}

void Coordinator::Core::goes_on() {
  if ((!begun_ && !stopping_) || dismissed_) return;
  const bool is_ending = stopping_ || std::ranges::any_of(seats_, [&](const auto& seat) {
                           return seat->ended && !seat->gone && is_whole(plan_->peers[rank_of(*seat)].cluster);
                         });
  deadline_ = is_ending ? clock_.now() + std::max(options_.farewell, 4 * longest_step_) : kNever;
}

void Coordinator::Core::late() {
  deadline_ = kNever;
  if (vacant_since_) return give_up("nobody has come in the place of those who were lost");
  const bool links = !begun_ && !stopping_;
  if (links && is_anew()) {
    for (const auto& seat : seats_) seat->gone = seat->gone || !seat->linked;  // nobody waits for it
    return leave_plan();
  }
  for (const auto& seat : seats_) {
    if (seat->is_done() || (links && seat->linked)) continue;
    seat->gone = true;
    const std::string why = links ? "could not link up with the others in time" : "did not end in time";
    seat->close(LinkError(Failure::kLate, "", why));
    fail(seat->name(), why);
  }
  changed_.notify();
}

void Coordinator::Core::fail(const std::string& peer, const std::string& why, const char* what) {
  if (failure_) return;
  give_up(fmt::format("{} {}: {}", peer, what, why));
  tell([&] { watcher_.lost(peer, why); });
}

void Coordinator::Core::give_up(const std::string& why) {
  if (!failure_) failure_ = why;
  stop(*failure_);
}

}  // namespace rookery::swarm
