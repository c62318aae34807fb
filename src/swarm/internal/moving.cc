#include <algorithm>
#include <utility>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

#include "swarm/internal/coordinator_core.h"

namespace rookery::swarm {
namespace {

using net::Failure;
using net::LinkError;

}  // namespace

void Coordinator::Core::have_second_thoughts() {
  if (!options_.moves || !options_.anew) return;
  second_thoughts_.set(clock_.now() + options_.second_thoughts, [this] {
    if (closed_ || broken_ || stopping_ || !begun_ || !has_reason_to_move()) return;
    boost::asio::co_spawn(clock_.executor(), consider(shared_from_this()), boost::asio::detached);
  });
}

bool Coordinator::Core::has_reason_to_move() const {
  for (std::size_t rank = 0; rank < seats_.size(); ++rank) {
    if (is_free(rank) || (!seats_[rank]->gone && seats_[rank]->introduction->stands_in)) return true;
  }
  return std::ranges::any_of(latecomers_, [](const auto& seat) { return seat->ready.has_value(); });
}

std::optional<std::vector<Means>> Coordinator::Core::present() const {
  std::vector<Means> means;
  for (const auto* seats : {&seats_, &latecomers_}) {
    for (const auto& seat : *seats) {
      if (seat->gone || seat->ended) continue;
      if (!seat->ready || seat->is_away || (seats == &seats_ && is_entering(*seat))) return std::nullopt;
      means.push_back(means_of(*seat));
    }
  }
  return means;
}

Task<> Coordinator::Core::consider(std::shared_ptr<Core> self) {
  const wire::Plan plan = *self->plan_;
  const auto means = self->present();
  const std::uint64_t step = self->last_step_;
  bool is_better = false;
  try {
    auto asking = aside(self->options_.aside, [&] { is_better = means && self->options_.moves(plan, *means, step); });
    co_await std::move(asking);
  } catch (const std::exception&) {
    self->break_off(std::current_exception());
  }
  if (self->closed_ || self->broken_ || self->stopping_ || !self->begun_) co_return;
  if (!is_better || self->plan_->generation != plan.generation) {
    self->have_second_thoughts();
    co_return;
  }
  self->moving_ = true;
  self->tell([&] { self->watcher_.moves(); });
  self->end_all("there is to be another plan");
}

Task<bool> Coordinator::Core::begin_anew(std::shared_ptr<Core> self) {
  if (!self->moving_ || self->broken_ || self->failure_ || self->closed_) co_return false;
  std::optional<Anew> anew;
  try {
    const std::uint64_t ended = std::max(self->end_.value_or(0), self->last_step_);
    auto preparing = aside(self->options_.aside, [&] { anew = self->options_.anew(ended); });
    co_await std::move(preparing);
    if (anew) self->watcher_.moved(anew->step);
  } catch (const std::exception&) {
    self->break_off(std::current_exception());
  }
  if (!anew || !self->moving_ || self->broken_ || self->closed_) co_return false;
  self->options_.settings = std::move(anew->settings);
  self->options_.checkpoint = std::move(anew->checkpoint);
  self->leave_plan();
  co_return true;
}

void Coordinator::Core::leave_plan() {
  const LinkError reason(Failure::kLate, "", "there is to be another plan"),
      no_part(Failure::kClosed, "", reason.text());
  awaited_.clear();
  for (const auto* seats : {&seats_, &latecomers_}) {
    for (const auto& seat : *seats) {
      if (!seat->gone && !seat->introduction->stands_in) awaited_.insert(seat->guest.key);
      seat->patience.cancel();
      seat->doubt.cancel();
      seat->is_replaced = true;
      seat->close(seats == &seats_ && begun_ ? reason : no_part);
    }
  }
  seats_.clear();
  latecomers_.clear();
  last_generation_ = plan_->generation;
  plan_.reset();
  moving_ = begun_ = stopping_ = false;
  saves_ = is_held_ = asks_to_hold_ = false;
  save_after_.reset();
  end_.reset();
  dismissed_.reset();
  covered_.reset();
  vacant_since_.reset();
  failed_surveys_ = 0;
  deadline_ = kNever;
  stand_in_.cancel();
  getting_on_.cancel();
  gather();
  for (const auto& seat : std::exchange(parked_, {})) seat_down(seat);
}

void Coordinator::Core::gather() {
  is_gathering_ = true;
  gathering_.set(clock_.now() + options_.gathering, [this] {
    if (!closed_ && !broken_) gather_no_longer();
  });
}

void Coordinator::Core::gather_no_longer() {
  if (plan_ || stopping_) return;
  is_gathering_ = false;
  awaited_.clear();
  if (seats_.empty()) return give_up("nobody has come again for another plan");
  plan_if_all_are_ready();
}

}  // namespace rookery::swarm
