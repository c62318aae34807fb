#include <algorithm>
#include <limits>
#include <utility>

#include "swarm/internal/coordinator_core.h"

namespace rookery::swarm {

void Coordinator::Core::hold() {
  if (!begun_ || stopping_ || is_held_) return;
  is_held_ = true;
  ask_to_hold();
}

void Coordinator::Core::release() {
  if (!is_held_ || stopping_) return;
  is_held_ = all_hold_ = false;
  if (saves_) return;  // they are about to be
  asks_to_hold_ = false;
  for (const auto& seat : seats_) {
    if (!seat->gone) seat->say(wire::Release{});
  }
  has_got_on();
  tell([&] { watcher_.released(); });
}

void Coordinator::Core::save() {
  if (!begun_ || stopping_ || saves_) return;
  saves_ = true;
  ask_to_hold();
}

void Coordinator::Core::ask_to_hold() {
  if (!asks_to_hold_) {
    asks_to_hold_ = true;
    all_hold_ = false;
    ++holds_;
    for (const auto& seat : seats_) {
      seat->holding.reset();
      if (!seat->gone) seat->say(wire::Hold{.number = holds_});
    }
  }
  agree_on_holding();
}

void Coordinator::Core::heard(Seat& seat, const wire::Holding& holding) {
  if (!begun_ || holding.number > holds_) throw wire::WireError("held out of turn");
  if (!asks_to_hold_ || holding.number != holds_) return;  // of an earlier time
  seat.holding = holding.step;
  agree_on_holding();
}

void Coordinator::Core::agree_on_holding() {
  if (!asks_to_hold_ || stopping_) return;
  std::uint64_t last = 0;
  for (const auto& seat : seats_) {
    if (seat->ended || seat->gone || waits(*seat)) continue;
    if (!seat->holding) return;
    last = std::max(last, *seat->holding);
  }
  if (std::exchange(saves_, false)) {
    asks_to_hold_ = is_held_;
    save_after_ = last;
    for (const auto& seat : seats_) {
      seat->holding = last;
      if (!seat->gone) seat->say(wire::Release{.save_after = last, .holds_again = is_held_});
    }
    has_got_on();
  }
  if (!is_held_) tell([&] { watcher_.released(); });
  tell_when_all_hold();
}

void Coordinator::Core::tell_when_all_hold() {
  if (!is_held_ || !asks_to_hold_ || all_hold_ || stopping_) return;
  // Whoever has begun a step that others have not waits for them in it.
  std::uint64_t last = std::numeric_limits<std::uint64_t>::max(), done = last;
  for (const auto& seat : seats_) {
    if (seat->ended || seat->gone || waits(*seat)) continue;
    if (!seat->holding) return;
    last = std::min(last, *seat->holding);
    done = std::min(done, seat->last_step);
  }
  if (done < last) return;
  all_hold_ = true;
  tell([&] { watcher_.held(); });
}

void Coordinator::Core::tell_of_holding(Seat& seat, std::uint64_t from) {
  const bool saves = save_after_ && *save_after_ > from;
  if (saves || !asks_to_hold_) {
    seat.say(wire::Release{.save_after = saves ? save_after_ : std::nullopt, .holds_again = saves && is_held_});
  }
  if (!asks_to_hold_) return;
  if (saves && is_held_) {
    seat.holding = save_after_;
  } else {
    seat.say(wire::Hold{.number = holds_});
  }
}

}  // namespace rookery::swarm
