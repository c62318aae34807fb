#include "swarm/coordinator.h"

#include <algorithm>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

#include "base/error.h"
#include "swarm/internal/coordinator_core.h"

namespace rookery::swarm {
namespace {

constexpr double kLongestStep = 3600;                      // in seconds; whoever says more is not believed
constexpr Duration kAllReturn = std::chrono::seconds(10);  // those of a run that was taken up

using net::Failure;
using net::LinkError;

}  // namespace

Coordinator::Core::Core(Clock& clock, net::Host& host, CoordinatorOptions options, Watcher& watcher)
    : clock_(clock),
      host_(host),
      options_(std::move(options)),
      watcher_(watcher),
      relay_(clock, {}),
      stand_in_(clock),
      second_thoughts_(clock),
      gathering_(clock),
      getting_on_(clock) {}

void Coordinator::Core::start() {
  if (options_.taken_up) take_up(*options_.taken_up);
  boost::asio::co_spawn(clock_.executor(), admit(shared_from_this()), boost::asio::detached);
}

Task<> Coordinator::Core::run(std::shared_ptr<Core> self) {
  for (bool again = true; again;) {
    auto attending = attend(self);
    co_await std::move(attending);
    auto beginning = begin_anew(self);
    again = co_await std::move(beginning);
  }
  for (const auto& seat : self->seats_) {
    seat->close(LinkError(Failure::kCancelled, "", self->broken_ ? self->broken_why_ : "the run is over"));
  }
  for (const auto* others : {&self->latecomers_, &self->parked_}) {
    for (const auto& seat : *others) seat->close(LinkError(Failure::kRefused, "", "the run is over"));
  }
  self->closed_ = true;
  if (self->broken_) std::rethrow_exception(self->broken_);
  if (self->failure_) throw Error("{}", *self->failure_);
}

Task<> Coordinator::Core::attend(std::shared_ptr<Core> self) {
  for (self->dismiss_who_waits(); !self->finished(); self->dismiss_who_waits()) {
    const Time limit = self->deadline_;
    if (limit == kNever) {
      auto wait = self->changed_.wait();
      co_await std::move(wait);
      continue;
    }
    auto wait = self->changed_.wait_until(self->clock_, limit);
    co_await std::move(wait);
    if (self->deadline_ <= self->clock_.now() && !self->dismissed_) self->late();
  }
}

void Coordinator::Core::abandon() {
  closed_ = true;
  for (const auto* seats : {&seats_, &latecomers_, &parked_}) {
    for (const auto& seat : *seats) seat->close(LinkError(Failure::kClosed, "", "closed the link"));
  }
  changed_.notify();
}

void Coordinator::Core::take_up(const Memory& memory) {
  plan_ = memory.plan;
  begun_ = true;
  stopping_ = memory.stopping;
  moving_ = memory.moving;
  covered_ = memory.covered;
  expelled_ = memory.expelled;
  last_step_ = options_.known_step;
  for (const wire::PlannedPeer& place : plan_->peers) {
    const net::Guest who{.name = place.contact.name, .key = net::Fingerprint(place.contact.fingerprint)};
    const auto seat = std::make_shared<Seat>(clock_, who);
    seat->introduction = wire::Introduction{.contact = place.contact, .host = place.host};
    seat->linked = true;
    seat->last_step = std::max(options_.known_step, place.from);
    seat->gone = place.empty;
    seats_.push_back(seat);
  }
  watcher_.taken_up(*plan_);
  for (const auto& seat : seats_) {
    if (!seat->gone) expect_back(*seat, "did not return", clock_.now() + kAllReturn);
  }
  expect_stand_in();
}

void Coordinator::Core::remember() {
  if (!options_.remember) return;
  const bool moves = moving_ || (is_anew() && !begun_);  // else they gather once more
  options_.remember({.plan = *plan_,
                     .begun = begun_ || moves,
                     .stopping = stopping_ || moves,
                     .moving = moves,
                     .covered = covered_,
                     .expelled = expelled_});
}

void Coordinator::Core::heard(Seat& seat, const wire::StepReport& report) {
  if (!seat.linked) throw wire::WireError("reported a step out of turn");
  const std::chrono::duration<double> took(std::min(report.compute_seconds + report.wait_seconds, kLongestStep));
  longest_step_ = std::max(longest_step_, std::chrono::duration_cast<Duration>(took));
  watcher_.stepped(seat.name(), report);
  seat.last_step = report.step;
  last_step_ = std::max(last_step_, report.step);
  tell_when_all_hold();
}

void Coordinator::Core::heard(Seat& seat, const wire::Activity& activity) {
  if (!seat.linked) throw wire::WireError("was active out of turn");
  watcher_.active(seat.name(), activity);
}

void Coordinator::Core::heard(Seat& seat, const wire::Evaluated& evaluation) {
  if (!seat.linked) throw wire::WireError("reported an evaluation out of turn");
  watcher_.evaluated(seat.name(), evaluation);
}

void Coordinator::Core::has_got_on() {
  if (is_held_) return getting_on_.cancel();  // nobody is to
  if (!begun_ || stopping_) return;
  const std::chrono::duration<double> expected(plan_->step_seconds);
  const Duration longest = std::max(longest_step_, std::chrono::duration_cast<Duration>(expected));
  getting_on_.set(clock_.now() + std::max(options_.stuck, 10 * longest), [this] {
    if (!closed_ && !broken_) begin_rounds_anew();
  });
}

void Coordinator::Core::begin_rounds_anew() {
  has_got_on();
  if (!begun_ || stopping_ || !options_.goes_on || !options_.goes_on(*plan_)) return;
  const auto is_busy_otherwise = [&](const auto& seat) {
    return !seat->gone && (seat->ended || seat->is_away || is_entering(*seat));
  };
  const bool hands_on = std::ranges::any_of(plan_->peers, &wire::PlannedPeer::restores);
  if (hands_on || std::ranges::any_of(seats_, is_busy_otherwise)) return;
  tell([&] { watcher_.stuck(); });
  wire::Plan next = *plan_;
  for (wire::PlannedPeer& peer : next.peers) peer.since = next.generation + 1;
  announce_next(std::move(next), 0);
}

void Coordinator::Core::break_off(std::exception_ptr why, const std::string& text) {
  if (!broken_) {
    broken_ = std::move(why);
    broken_why_ = text;
  }
  changed_.notify();
}

std::size_t Coordinator::Core::rank_of(const Seat& seat) const {
  return static_cast<std::size_t>(
      std::ranges::find_if(seats_, [&](const auto& other) { return other.get() == &seat; }) - seats_.begin());
}

bool Coordinator::Core::is_whole(std::uint32_t cluster) const {
  return std::ranges::all_of(plan_->peers, [&](const auto& peer) { return peer.cluster != cluster || peer.here; });
}

Coordinator::Coordinator(Clock& clock, net::Host& host, CoordinatorOptions options, Watcher& watcher)
    : core_(std::make_shared<Core>(clock, host, std::move(options), watcher)) {
  core_->start();
}

Coordinator::~Coordinator() { core_->abandon(); }

Task<> Coordinator::run() { return Core::run(core_); }

void Coordinator::stop(const std::string& reason) { core_->stop(reason); }

void Coordinator::hold() { core_->hold(); }

void Coordinator::release() { core_->release(); }

void Coordinator::save() { core_->save(); }

}  // namespace rookery::swarm
