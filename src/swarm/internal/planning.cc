#include <algorithm>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

#include "base/error.h"
#include "swarm/internal/coordinator_core.h"

namespace rookery::swarm {
namespace {

constexpr std::uint32_t kMostSurveys = 3;  // that fail
constexpr Duration kUntilNextSurvey = std::chrono::seconds(2);

using net::Failure;
using net::LinkError;

}  // namespace

void Coordinator::Core::plan_if_all_are_ready() {
  if (planning_ || !all_are_ready()) return;
  planning_ = true;
  boost::asio::co_spawn(clock_.executor(), make_plan(shared_from_this()), boost::asio::detached);
}

bool Coordinator::Core::all_are_ready() const {
  const auto is_ready = [](const auto& seat) { return seat->ready.has_value(); };
  const bool all_have_come = is_anew() ? awaited_.empty() && !seats_.empty() : seats_.size() == options_.peers;
  return !plan_ && all_have_come && std::ranges::all_of(seats_, is_ready);
}

Task<> Coordinator::Core::make_plan(std::shared_ptr<Core> self) {
  try {
    while (self->may_plan()) {
      // Ranks go by name, so that the same swarm gives the same bits however it was started.
      std::ranges::sort(self->seats_, {}, [](const auto& seat) { return seat->name(); });
      const std::vector<std::shared_ptr<Seat>> planned = self->seats_;
      auto surveying = survey(self, planned);
      if (!co_await std::move(surveying)) continue;
      wire::Plan plan = plan_for(planned, self->last_generation_ + 1);
      if (self->options_.arrange) {
        std::vector<Means> means;
        for (const auto& seat : planned) means.push_back(means_of(*seat));
        auto arranging = aside(self->options_.aside, [&] { self->options_.arrange(plan, means); });
        co_await std::move(arranging);
      }
      if (!self->may_plan() || planned != self->seats_) continue;
      self->announce(std::move(plan));
      break;
    }
  } catch (const std::exception& error) {
    self->break_off(std::current_exception(), error.what());
  }
  self->planning_ = false;
}

Task<bool> Coordinator::Core::survey(std::shared_ptr<Core> self, std::vector<std::shared_ptr<Seat>> peers) {
  wire::Survey message{.number = ++self->surveys_};
  for (const auto& seat : peers) {
    seat->surveyed.reset();
    message.peers.push_back(contact_of(*seat));
  }
  for (const auto& seat : peers) seat->say(message);
  Time deadline = self->clock_.now() + self->options_.links;
  const auto is_done = [](const auto& seat) { return seat->surveyed.has_value(); };
  while (self->may_plan() && self->seats_ == peers && !std::ranges::all_of(peers, is_done)) {
    auto waiting = self->changed_.wait_until(self->clock_, deadline);
    co_await std::move(waiting);
    if (self->clock_.now() < deadline) continue;
    for (const auto& seat : peers) {
      if (is_done(seat)) continue;
      seat->close(LinkError(Failure::kLate, "", "did not link up with the others in time"));
    }
    deadline = kNever;
  }
  if (!self->may_plan() || self->seats_ != peers) co_return false;
  const auto failed = std::ranges::find_if(peers, [](const auto& seat) { return !seat->surveyed->text.empty(); });
  if (failed == peers.end()) co_return true;
  const wire::Surveyed& why = *(*failed)->surveyed;
  if (++self->failed_surveys_ == kMostSurveys) {
    throw Error("{} has no link to {}: {}", (*failed)->name(), why.culprit, why.text);
  }
  // Perhaps it was lost, and that is not known here yet.
  auto waiting = self->clock_.sleep_for(kUntilNextSurvey);
  co_await std::move(waiting);
  co_return false;
}

void Coordinator::Core::heard(Seat& seat, const wire::Surveyed& surveyed) {
  if (surveyed.number > surveys_ || plan_) throw wire::WireError("surveyed out of turn");
  if (surveyed.number < surveys_) return;  // an earlier one, with others
  if (seat.surveyed) throw wire::WireError("surveyed twice");
  seat.surveyed = surveyed;
  changed_.notify();
}

wire::Plan Coordinator::Core::plan_for(const std::vector<std::shared_ptr<Seat>>& seats, std::uint32_t generation) {
  wire::Plan plan{.generation = generation};
  for (const auto& seat : seats) {
    plan.peers.push_back({.contact = contact_of(*seat),
                          .cluster = static_cast<std::uint32_t>(plan.peers.size()),
                          .weight = 1,
                          .host = seat->introduction->host});
  }
  return plan;
}

wire::Contact Coordinator::Core::contact_of(const Seat& seat) {
  wire::Contact contact = seat.introduction->contact;
  contact.fingerprint = seat.guest.key.bytes();
  return contact;
}

Means Coordinator::Core::means_of(const Seat& seat) {
  Means means{.name = seat.name(),
              .host = seat.introduction->host,
              .stands_in = seat.introduction->stands_in,
              .ready = *seat.ready};
  if (seat.surveyed) {
    means.links = seat.surveyed->links;
    means.crowding = seat.surveyed->crowding;
  }
  const std::uint64_t memory = seat.introduction->memory, resident = seat.ready->resident;
  if (memory > 0) means.memory = memory - std::min(memory, resident);
  return means;
}

void Coordinator::Core::announce(wire::Plan plan) {
  plan_ = std::move(plan);
  remember();
  last_step_ = plan_->first_step;
  gathering_.cancel();
  watcher_.planned(*plan_);
  deadline_ = clock_.now() + options_.links;
  for (const auto& seat : seats_) seat->say(*plan_);
  changed_.notify();
}

void Coordinator::Core::announce_next(wire::Plan next, std::size_t rank) {
  ++next.generation;
  for (wire::PlannedPeer& peer : next.peers) {
    if (peer.cluster == next.peers[rank].cluster) peer.since = next.generation;
  }
  plan_ = std::move(next);
  tell([&] { remember(); });
  if (broken_) return;  // nobody is to hear of what another coordinator would not know
  tell([&] { watcher_.replanned(*plan_); });
  for (const auto& seat : seats_) {
    if (!seat->gone) seat->say(*plan_);  // also to those who have ended: others may ask them
  }
}

void Coordinator::Core::heard(Seat& seat, const wire::Linked& linked) {
  if (!plan_ || linked.generation > plan_->generation || seat.linked) throw wire::WireError("linked out of turn");
  if (!seat.is_late && linked.generation != plan_->generation) throw wire::WireError("linked out of turn");
  seat.linked = true;
  if (seat.is_late) {
    seat.say(wire::Begin{.generation = linked.generation});
    seat.patience.cancel();
    restore(plan_->peers[rank_of(seat)].cluster);
    return settle_latecomers();
  }
  if (stopping_ || !std::ranges::all_of(seats_, [](const auto& other) { return other->linked; })) return;
  deadline_ = kNever;
  begun_ = true;
  remember();
  watcher_.began();
  for (const auto& other : seats_) other->say(wire::Begin{.generation = plan_->generation});
  settle_latecomers();
  have_second_thoughts();
  changed_.notify();
}

}  // namespace rookery::swarm
