#include "swarm/coordinator.h"

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

#include "base/error.h"
#include "base/signal.h"
#include "net/relay.h"
#include "swarm/files.h"
#include "swarm/internal/seat.h"
#include "swarm/talk.h"

namespace rookery::swarm {
namespace {

constexpr std::size_t kMaxStrangers = 64;
constexpr std::size_t kMostSpares = 64;            // who wait for a place
constexpr std::size_t kMaxUnfetched = 4;           // checkpoints
constexpr std::uint64_t kBytesPerParameter = 128;  // of a checkpoint, at most, and
constexpr std::uint64_t kBytesBeside = 64 << 20;   // for what is not parameters
constexpr std::uint32_t kMostSurveys = 3;          // that fail
constexpr Duration kUntilNextSurvey = std::chrono::seconds(2);
constexpr std::size_t kSuspicionsOfOne = 3;                // that count, where there is nobody else
constexpr double kLongestStep = 3600;                      // in seconds; whoever says more is not believed
constexpr Duration kAllReturn = std::chrono::seconds(10);  // those of a run that was taken up
constexpr Duration kSecondLook = std::chrono::seconds(3);  // when two have no link to each other
constexpr Duration kDismissal = std::chrono::seconds(10);  // for those who wait to end, when all others have

using internal::Seat;
using net::Failure;
using net::LinkError;

}  // namespace

class Coordinator::Core : public std::enable_shared_from_this<Core> {
 public:
  Core(Clock& clock, net::Host& host, CoordinatorOptions options, Watcher& watcher)
      : clock_(clock),
        host_(host),
        options_(std::move(options)),
        watcher_(watcher),
        relay_(clock, {}),
        stand_in_(clock),
        second_thoughts_(clock),
        gathering_(clock),
        getting_on_(clock) {}

  void start() {
    if (options_.taken_up) take_up(*options_.taken_up);
    boost::asio::co_spawn(clock_.executor(), admit(shared_from_this()), boost::asio::detached);
  }

  static Task<> run(std::shared_ptr<Core> self) {
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

  void stop(const std::string& reason) {
    moving_ = false;
    end_all(reason);
  }

  void hold() {
    if (!begun_ || stopping_ || is_held_) return;
    is_held_ = true;
    ask_to_hold();
  }

  void release() {
    if (!is_held_ || stopping_) return;
    is_held_ = false;
    if (saves_) return;  // they are about to be
    asks_to_hold_ = false;
    for (const auto& seat : seats_) {
      if (!seat->gone) seat->say(wire::Release{});
    }
    has_got_on();
    tell([&] { watcher_.released(); });
  }

  void save() {
    if (!begun_ || stopping_ || saves_) return;
    saves_ = true;
    ask_to_hold();
  }

  // Nobody is to call back into what has gone.
  void abandon() {
    closed_ = true;
    for (const auto* seats : {&seats_, &latecomers_, &parked_}) {
      for (const auto& seat : *seats) seat->close(LinkError(Failure::kClosed, "", "closed the link"));
    }
    changed_.notify();
  }

 private:
  // Until everybody has ended.
  static Task<> attend(std::shared_ptr<Core> self) {
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

  void end_all(const std::string& reason) {
    if (stopping_) return;
    stopping_ = true;
    if (begun_) tell([&] { remember(); });
    goes_on();
    const LinkError no_part(moving_ ? Failure::kClosed : Failure::kRefused, "", moving_ ? reason : "the run is over");
    for (const auto& seat : latecomers_) {
      if (!moving_) seat->close(no_part);
    }
    for (const auto& seat : seats_) {
      seat->say(wire::Stop{.reason = reason, .moves = moving_});
      if (plan_ && is_entering(*seat)) seat->close(no_part);
    }
    changed_.notify();
  }

  void ask_to_hold() {
    if (!asks_to_hold_) {
      asks_to_hold_ = true;
      ++holds_;
      for (const auto& seat : seats_) {
        seat->holding.reset();
        if (!seat->gone) seat->say(wire::Hold{.number = holds_});
      }
    }
    agree_on_holding();
  }

  void heard(Seat& seat, const wire::Holding& holding) {
    if (!begun_ || holding.number > holds_) throw wire::WireError("held out of turn");
    if (!asks_to_hold_ || holding.number != holds_) return;  // of an earlier time
    seat.holding = holding.step;
    agree_on_holding();
  }

  // When it is known of all in which step they are, nobody goes beyond the last of these before it is saved.
  void agree_on_holding() {
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
    tell([&] { is_held_ ? watcher_.held() : watcher_.released(); });
  }

  // Somebody who may not have heard it: it was away, or not part of a whole cluster. It goes on after so many steps.
  void tell_of_holding(Seat& seat, std::uint64_t from) {
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

  // Whether another plan would be better is asked a while after something has changed, as long as there is a reason:
  // nobody has some place, or somebody has none, or does the work of two.
  void have_second_thoughts() {
    if (!options_.moves || !options_.anew) return;
    second_thoughts_.set(clock_.now() + options_.second_thoughts, [this] {
      if (closed_ || broken_ || stopping_ || !begun_ || !has_reason_to_move()) return;
      boost::asio::co_spawn(clock_.executor(), consider(shared_from_this()), boost::asio::detached);
    });
  }

  bool has_reason_to_move() const {
    for (std::size_t rank = 0; rank < seats_.size(); ++rank) {
      if (is_free(rank) || (!seats_[rank]->gone && seats_[rank]->introduction->stands_in)) return true;
    }
    return std::ranges::any_of(latecomers_, [](const auto& seat) { return seat->ready.has_value(); });
  }

  // Those who are there, with a place or without; nothing if too little is known of one of them, or somebody is on its
  // way.
  std::optional<std::vector<Means>> present() const {
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

  static Task<> consider(std::shared_ptr<Core> self) {
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

  // If everybody has ended for another plan: those who were there are expected again, and nobody else is turned away.
  static Task<bool> begin_anew(std::shared_ptr<Core> self) {
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

  void leave_plan() {
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

  void gather() {
    is_gathering_ = true;
    gathering_.set(clock_.now() + options_.gathering, [this] {
      if (!closed_ && !broken_) gather_no_longer();
    });
  }

  bool is_anew() const { return last_generation_ > 0; }

  // Whoever has not come again by now waits for a place when it does.
  void gather_no_longer() {
    if (plan_ || stopping_) return;
    is_gathering_ = false;
    awaited_.clear();
    if (seats_.empty()) return give_up("nobody has come again for another plan");
    plan_if_all_are_ready();
  }

  bool finished() const {
    if (broken_ || closed_) return true;
    if (!plan_) return stopping_;
    if (dismissed_ && clock_.now() >= *dismissed_ + kDismissal) return true;
    return std::ranges::all_of(seats_, [&](const auto& seat) { return seat->is_done(); });
  }

  // Those who train have ended: those who wait for somebody need not wait any more.
  void dismiss_who_waits() {
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

  // Something has happened: whoever is to end has time again.
  void goes_on() {
    if ((!begun_ && !stopping_) || dismissed_) return;
    const bool is_ending = stopping_ || std::ranges::any_of(seats_, [&](const auto& seat) {
                             return seat->ended && !seat->gone && is_whole(plan_->peers[rank_of(*seat)].cluster);
                           });
    deadline_ = is_ending ? clock_.now() + std::max(options_.farewell, 4 * longest_step_) : kNever;
  }

  // All its places are taken by those who do their work.
  bool is_whole(std::uint32_t cluster) const {
    return std::ranges::all_of(plan_->peers, [&](const auto& peer) { return peer.cluster != cluster || peer.here; });
  }

  // Its cluster has lost somebody, or it has come later itself: it does no work yet.
  bool waits(const Seat& seat) const { return !is_whole(plan_->peers[rank_of(seat)].cluster); }

  // Somebody who has come later, and does no work yet.
  bool is_entering(const Seat& seat) const { return seat.is_late && !seat.gone && !plan_->peers[rank_of(seat)].here; }

  // Takes whoever comes, for as long as the host is open.
  static Task<> admit(std::shared_ptr<Core> self) {
    try {
      for (;;) {
        auto accepting = self->host_.accept();
        net::Meeting meeting = co_await std::move(accepting);
        if (self->closed_) {
          meeting.link->close(LinkError(Failure::kRefused, "", "the run is over"));
          continue;
        }
        if (self->strangers_ == kMaxStrangers) {
          meeting.link->close(LinkError(Failure::kRefused, "", "too many have come at once; try again"));
          continue;
        }
        ++self->strangers_;
        const auto seat = std::make_shared<Seat>(self->clock_, std::move(meeting), self->options_.aside);
        seat->expect_by(self->clock_.now() + self->options_.introduction, "introduce itself");
        boost::asio::co_spawn(self->clock_.executor(), serve(self, seat), boost::asio::detached);
      }
    } catch (const LinkError&) {
      // The host was closed.
    }
  }

  static Task<> serve(std::shared_ptr<Core> self, std::shared_ptr<Seat> seat) {
    std::string why;
    bool is_silent = false;
    try {
      while (!self->closed_) {
        auto hearing = seat->talk->hear();
        const wire::SwarmMessage message = co_await std::move(hearing);
        if (self->closed_ || seat->is_replaced) break;
        if (const auto* returned = std::get_if<wire::Returned>(&message); returned != nullptr && !seat->introduction) {
          self->take_back(seat, *returned);
          continue;
        }
        if (std::holds_alternative<wire::Look>(message) && !seat->introduction) {
          auto showing = show(self, seat);
          co_await std::move(showing);
          continue;
        }
        if (!seat->introduction != std::holds_alternative<wire::Introduction>(message) || seat->ended) {
          throw wire::WireError("said something out of turn");
        }
        const bool is_answer =
            std::holds_alternative<wire::Ready>(message) || std::holds_alternative<wire::Failed>(message);
        const bool may_speak = !seat->introduction || self->rank_of(*seat) < self->seats_.size() ||
                               (is_answer && std::ranges::find(self->parked_, seat) == self->parked_.end());
        if (!may_speak) throw wire::WireError("said something out of turn");
        std::visit([&](const auto& content) { self->heard(*seat, content); }, message);
        if (!std::holds_alternative<wire::Activity>(message)) {
          self->goes_on();
          self->has_got_on();
        }
        if (std::holds_alternative<wire::Introduction>(message)) self->seat_down(seat);
        if (std::holds_alternative<wire::Saved>(message) && seat->unfetched.size() == 1) {
          boost::asio::co_spawn(self->clock_.executor(), keep(self, seat), boost::asio::detached);
        }
      }
    } catch (const LinkError& error) {
      why = error.text();
      is_silent = error.failure() == Failure::kSilent;
    } catch (const wire::WireError& error) {
      why = error.what();
      seat->close(LinkError(Failure::kProtocol, "", error.what()));
    } catch (const std::exception&) {
      self->break_off(std::current_exception());
    }
    seat->patience.cancel();
    if (!seat->introduction) --self->strangers_;
    if (self->closed_ || self->broken_ || seat->is_replaced) co_return;
    if (is_silent && self->may_return(*seat)) {
      self->expect_back(*seat, why, self->clock_.now());
    } else {
      self->gone(*seat, why);
    }
  }

  // One who only looks on, and has some time to look again.
  static Task<> show(std::shared_ptr<Core> self, std::shared_ptr<Seat> seat) {
    if (!self->options_.show) {
      const LinkError reason(Failure::kRefused, "", "the run is not shown: its dashboard is off");
      seat->close(reason);
      throw LinkError(reason);
    }
    seat->patience.cancel();
    auto showing = self->options_.show();
    const std::string text = co_await std::move(showing);
    seat->say(wire::Shown{.text = text.size() <= wire::kMaxShownBytes ? text : "{}"});
    seat->expect_by(self->clock_.now() + self->options_.introduction, "look again");
  }

  // Somebody has said something, so they are not stuck.
  void has_got_on() {
    if (is_held_) return getting_on_.cancel();  // nobody is to
    if (!begun_ || stopping_) return;
    const std::chrono::duration<double> expected(plan_->step_seconds);
    const Duration longest = std::max(longest_step_, std::chrono::duration_cast<Duration>(expected));
    getting_on_.set(clock_.now() + std::max(options_.stuck, 10 * longest), [this] {
      if (!closed_ && !broken_) begin_rounds_anew();
    });
  }

  void begin_rounds_anew() {
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

  // Takes up a run that another coordinator has begun: its peers train on, and return.
  void take_up(const Memory& memory) {
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

  // What another coordinator would need to know, before anybody acts on it.
  void remember() {
    if (!options_.remember) return;
    const bool moves = moving_ || (is_anew() && !begun_);  // else they gather once more
    options_.remember({.plan = *plan_,
                       .begun = begun_ || moves,
                       .stopping = stopping_ || moves,
                       .moving = moves,
                       .covered = covered_,
                       .expelled = expelled_});
  }

  bool may_return(const Seat& seat) const {
    return begun_ && !seat.gone && !seat.ended && seat.linked && rank_of(seat) < seats_.size();
  }

  // Nothing is heard of somebody, which may be the link's fault, or this end's: it trains on if it can, and returns. If
  // others miss it too, nobody waits for it.
  void expect_back(Seat& seat, const std::string& why, Time quiet_from) {
    seat.is_away = true;
    seat.quiet_from = quiet_from;
    tell([&] { watcher_.silent(seat.name(), why); });
    seat.patience.set(clock_.now() + options_.returning, [this, &seat, why] {
      if (!closed_ && !broken_) gone(seat, why);
    });
    judge(seat);
  }

  // Somebody who trains has made another link: it goes on from what is known of it.
  void take_back(const std::shared_ptr<Seat>& seat, const wire::Returned& returned) {
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
    const std::shared_ptr<Seat> before = std::exchange(seats_[rank], seat);
    before->patience.cancel();
    before->doubt.cancel();
    seat->follow(*before);
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

  void heard(Seat& seat, const wire::Missed& missed) {
    if (!begun_ || !seat.linked) throw wire::WireError("missed somebody out of turn");
    const auto found = std::ranges::find_if(seats_, [&](const auto& other) { return other->name() == missed.who; });
    if (found == seats_.end() || (*found)->gone || (*found)->ended || found->get() == &seat) return;
    if (plan_->peers[rank_of(**found)].came != missed.came) return;  // another one of that name
    seat.misses.insert(missed.who);
    watcher_.missed(missed.who, seat.name(), missed.text);
    judge(**found);
  }

  // One who has no link to it any more, and trains.
  Seat* who_misses(const Seat& seat) const {
    const auto found = std::ranges::find_if(seats_, [&](const auto& other) {
      return !other->gone && !other->ended && other->misses.contains(seat.name());
    });
    return found == seats_.end() ? nullptr : found->get();
  }

  // Two witnesses are enough: somebody misses it, and here nothing is heard of it, either. Else it may be that link
  // alone; but what is not noticed here yet may be soon.
  void judge(Seat& seat) {
    const Seat* witness = who_misses(seat);
    if (seat.gone || seat.ended || witness == nullptr) return;
    if (seat.is_quiet(clock_.now())) return part_with(seat, fmt::format("is silent, to {} as well", witness->name()));
    seat.doubt.set(seat.is_away ? seat.quiet_from : clock_.now() + kSecondLook, [this, &seat] {
      if (!closed_ && !broken_) look_again(seat);
    });
  }

  // Two who are both there have no link to each other, so one has to go: whoever has lost more links, or the one of
  // higher rank. It makes others when it joins again. A link that has ended has done so for both: whoever is alone in
  // missing the other is not believed.
  void look_again(Seat& seat) {
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

  void part_with(Seat& seat, const std::string& why) {
    if (seat.is_away) return gone(seat, why);
    seat.close(LinkError(Failure::kLate, "", why));  // and so it is gone
  }

  // Whoever watches cannot go on (the disk is full), so nothing would come of what the peers still do.
  void break_off(std::exception_ptr why, const std::string& text = "cannot go on") {
    if (!broken_) {
      broken_ = std::move(why);
      broken_why_ = text;
    }
    changed_.notify();
  }

  template <typename Tell>
  void tell(const Tell& what) {
    try {
      what();
    } catch (const std::exception&) {
      break_off(std::current_exception());
    }
  }

  [[noreturn]] void refuse(Seat& seat, const std::string& why) {
    tell([&] { watcher_.refused(seat.name(), why); });
    seat.refused = true;
    if (options_.only_these && !plan_ && !is_anew()) {
      give_up(fmt::format("{} cannot take part: {}", seat.name(), why));
    }
    const LinkError reason(Failure::kRefused, "", why);
    seat.close(reason);
    throw LinkError(reason);
  }

  void heard(Seat& seat, const wire::Introduction& introduction) {
    if (introduction.contact.name != seat.name()) throw wire::WireError("introduced itself by another name");
    if (stopping_ && !moving_) refuse(seat, "the run is over");
    if (expelled_.contains(seat.guest.key)) refuse(seat, "was expelled from this run");
    if (plan_ && !moving_ && !may_be_spare()) refuse(seat, "the run has begun without it, and no place is free");
    // Whoever begins anew does not return.
    const std::vector<std::shared_ptr<Seat>> seats = seats_;  // which may change
    for (const auto& other : seats) {
      const bool is_it = other->name() == seat.name() && other->guest.key == seat.guest.key;
      if (!is_it || !other->is_away || other->gone) continue;
      if (moving_) {
        has_ended(*other);
      } else {
        gone(*other, "has begun anew");
      }
    }
    const auto same_name = [&](const auto& other) { return other->name() == seat.name() && !other->gone; };
    const bool is_known = std::ranges::any_of(seats_, same_name) || std::ranges::any_of(latecomers_, same_name);
    const auto is_another = [&](const auto& other) { return same_name(other) && other->guest.key != seat.guest.key; };
    const bool is_taken = std::ranges::any_of(parked_, same_name) || std::ranges::any_of(seats_, is_another);
    if (moving_ ? is_taken : is_known) {
      refuse(seat, "another peer has the same name; choose one with --name");
    }
    if (!plan_ && !is_anew() && seats_.size() == options_.peers) refuse(seat, "the swarm is full");
    if (introduction.stands_in && (moving_ || !begun_)) refuse(seat, "nobody has to stand in any more");
    seat.introduction = introduction;
    --strangers_;
    seat.expect_by(clock_.now() + options_.preparation, "open its data and build its model");
  }

  // It has joined again before this coordinator knew that it had ended by the plan before.
  void has_ended(Seat& seat) {
    seat.ended = true;
    seat.is_away = false;
    seat.patience.cancel();
    agree_on_the_end();
    changed_.notify();
  }

  void seat_down(const std::shared_ptr<Seat>& seat) {
    if (moving_) return parked_.push_back(seat);
    awaited_.erase(seat->guest.key);
    seat->is_late = plan_.has_value() || (is_anew() && !is_gathering_);
    (seat->is_late ? latecomers_ : seats_).push_back(seat);
    watcher_.joined(seat->name());
    relay_.serve(seat->link, seat->guest);
    wire::Assignment assignment{.settings = options_.settings};
    for (const OfferedFile& file : options_.data_files) assignment.data.push_back(file.facts);
    for (const OfferedFile& file : options_.checkpoint) {
      if (!seat->is_late) assignment.checkpoint.push_back(file.facts);
    }
    for (const auto* files : {&options_.data_files, &options_.checkpoint}) {
      for (const OfferedFile& file : *files) seat->files->offer(file.facts, file.path);
    }
    seat->say(assignment);
  }

  void heard(Seat& seat, const wire::Ready& ready) {
    if (!seat.introduction || seat.ready) throw wire::WireError("was ready out of turn");
    seat.patience.cancel();
    if (stopping_) return;
    const bool same_model = ready.model == options_.model && ready.parameters == options_.parameters;
    if (ready.data != options_.data) refuse(seat, "its data is not the same as that of this run");
    if (!same_model) refuse(seat, "its version of the model is not the same as that of this run");
    seat.ready = ready;
    watcher_.ready(seat.name(), ready);
    if (!seat.is_late) return plan_if_all_are_ready();
    settle_latecomers();
    have_second_thoughts();
  }

  void plan_if_all_are_ready() {
    if (planning_ || !all_are_ready()) return;
    planning_ = true;
    boost::asio::co_spawn(clock_.executor(), make_plan(shared_from_this()), boost::asio::detached);
  }

  bool all_are_ready() const {
    const auto is_ready = [](const auto& seat) { return seat->ready.has_value(); };
    const bool all_have_come = is_anew() ? awaited_.empty() && !seats_.empty() : seats_.size() == options_.peers;
    return !plan_ && all_have_come && std::ranges::all_of(seats_, is_ready);
  }

  bool may_plan() const { return !closed_ && !stopping_ && !broken_ && all_are_ready(); }

  // Whoever leaves while the plan is made makes room for another, and there is another plan.
  static Task<> make_plan(std::shared_ptr<Core> self) {
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

  // Peers link up and find out about their links. False if there has to be another one: somebody has gone, or did not
  // reach another. Throws if some of them cannot.
  static Task<bool> survey(std::shared_ptr<Core> self, std::vector<std::shared_ptr<Seat>> peers) {
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

  // What it has proved, not what it says.
  static wire::Contact contact_of(const Seat& seat) {
    wire::Contact contact = seat.introduction->contact;
    contact.fingerprint = seat.guest.key.bytes();
    return contact;
  }

  void heard(Seat& seat, const wire::Surveyed& surveyed) {
    if (surveyed.number > surveys_ || plan_) throw wire::WireError("surveyed out of turn");
    if (surveyed.number < surveys_) return;  // an earlier one, with others
    if (seat.surveyed) throw wire::WireError("surveyed twice");
    seat.surveyed = surveyed;
    changed_.notify();
  }

  static wire::Plan plan_for(const std::vector<std::shared_ptr<Seat>>& seats, std::uint32_t generation) {
    wire::Plan plan{.generation = generation};
    for (const auto& seat : seats) {
      plan.peers.push_back({.contact = contact_of(*seat),
                            .cluster = static_cast<std::uint32_t>(plan.peers.size()),
                            .weight = 1,
                            .host = seat->introduction->host});
    }
    return plan;
  }

  static Means means_of(const Seat& seat) {
    Means means{.name = seat.name(),
                .host = seat.introduction->host,
                .stands_in = seat.introduction->stands_in,
                .ready = *seat.ready};
    if (seat.surveyed) means.links = seat.surveyed->links;
    const std::uint64_t memory = seat.introduction->memory, resident = seat.ready->resident;
    if (memory > 0) means.memory = memory - std::min(memory, resident);
    return means;
  }

  void announce(wire::Plan plan) {
    plan_ = std::move(plan);
    remember();
    last_step_ = plan_->first_step;
    gathering_.cancel();
    watcher_.planned(*plan_);
    deadline_ = clock_.now() + options_.links;
    for (const auto& seat : seats_) seat->say(*plan_);
    changed_.notify();
  }

  // Nobody does its work any more, or ever will.
  bool is_free(std::size_t rank) const {
    const Seat& seat = *seats_[rank];
    return !plan_->peers[rank].here && (seat.gone || seat.ended);
  }

  // Whoever comes while no place is free waits for one: somebody may be lost at any time.
  bool may_be_spare() const {
    return (begun_ || is_anew()) && !stopping_ && options_.fits && latecomers_.size() < kMostSpares;
  }

  bool somebody_links_up() const {
    return std::ranges::any_of(seats_, [&](const auto& seat) { return is_entering(*seat) && !seat->linked; });
  }

  // One after another, so that each has links to those before it.
  void settle_latecomers() {
    if (!begun_) return;
    const std::vector<std::shared_ptr<Seat>> waiting = latecomers_;
    for (const auto& seat : waiting) {
      if (stopping_ || somebody_links_up()) return;
      if (seat->ready && !seat->gone && take_place(seat)) std::erase(latecomers_, seat);
    }
    relieve_stand_in();
  }

  // Whoever stands in does the work of two: somebody who has come for good gets its place.
  void relieve_stand_in() {
    if (!begun_ || stopping_ || somebody_links_up()) return;
    for (std::size_t rank = 0; rank < seats_.size(); ++rank) {
      Seat& seat = *seats_[rank];
      if (seat.gone || seat.ended || !seat.introduction->stands_in || !plan_->peers[rank].here) continue;
      const auto is_successor = [&](const auto& other) {
        return other->ready && !other->gone && !other->introduction->stands_in &&
               options_.fits(*plan_, rank, means_of(*other));
      };
      if (!std::ranges::any_of(latecomers_, is_successor) || !can_do_without(plan_without(rank))) continue;
      return part_with(seat, "stood in, and somebody has come for its place");
    }
  }

  // If nobody comes for a while, one who is there stands in for one who was lost.
  void expect_stand_in() {
    if (!options_.stands_in) return;
    // A lone cluster goes back for a stand-in, and once more for whoever relieves it: somebody else may still come.
    const bool is_lone = options_.rewinds && options_.rewinds(*plan_);
    stand_in_.set(clock_.now() + (is_lone ? 4 : 1) * options_.stand_in, [this] {
      if (!closed_ && !broken_ && !stopping_) ask_to_stand_in();
    });
  }

  // One at a time. Those of a cluster that waits have nothing else to do.
  void ask_to_stand_in() {
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

  // Whoever comes back gets the place that it had: nobody is in a plan twice. False if there is none that it could
  // fill, for now.
  bool take_place(const std::shared_ptr<Seat>& seat) {
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

  // Another plan, with a change in the cluster of this rank.
  void announce_next(wire::Plan next, std::size_t rank) {
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

  std::size_t rank_of(const Seat& seat) const {
    return static_cast<std::size_t>(
        std::ranges::find_if(seats_, [&](const auto& other) { return other.get() == &seat; }) - seats_.begin());
  }

  // All places of a cluster are taken again, and all who have them are `ready`.
  template <typename IsReady>
  bool all_of_cluster(std::uint32_t cluster, const IsReady& is_ready) const {
    for (std::size_t rank = 0; rank < seats_.size(); ++rank) {
      if (plan_->peers[rank].cluster != cluster) continue;
      if (seats_[rank]->gone || seats_[rank]->ended || !is_ready(*seats_[rank])) return false;
    }
    return true;
  }

  // Those who are new in a cluster have their links, and the others have stopped: all get what belongs to their places.
  void restore(std::uint32_t cluster) {
    const auto is_ready = [](const Seat& seat) { return !seat.is_away && (seat.is_late ? seat.linked : seat.paused); };
    if (stopping_ || is_whole(cluster) || !all_of_cluster(cluster, is_ready)) return;
    for (std::size_t rank = 0; rank < seats_.size(); ++rank) {
      if (plan_->peers[rank].cluster != cluster) continue;
      seats_[rank]->expect_by(clock_.now() + options_.restoration, "get what belongs to its place");
    }
    enter(cluster, false);
  }

  // A cluster is to get what others have, or has got it.
  void enter(std::uint32_t cluster, bool restored) {
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

  std::size_t rank_in(std::uint32_t cluster) const {
    const auto found = std::ranges::find(plan_->peers, cluster, &wire::PlannedPeer::cluster);
    return static_cast<std::size_t>(found - plan_->peers.begin());
  }

  bool can_rewind(const wire::Plan& plan) const { return covered_ && options_.rewinds && options_.rewinds(plan); }

  void rewind(wire::PlannedPeer& place, bool restored) const {
    place.rewinds = true;
    place.restores = !restored;
    if (restored) {
      place.here = true;
    } else {
      place.from = *covered_;
    }
  }

  // All stages have a copy of the one before them.
  void heard(Seat& seat, const wire::Held& held) {
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

  void heard(Seat& seat, const wire::Paused& paused) {
    const std::uint32_t cluster = plan_ ? plan_->peers[rank_of(seat)].cluster : 0;
    if (!begun_ || paused.generation > plan_->generation) throw wire::WireError("paused out of turn");
    if (is_whole(cluster) || plan_->peers[rank_of(seat)].restores) return;  // it has not heard of that yet
    seat.paused = true;
    restore(cluster);
    changed_.notify();
  }

  void heard(Seat& seat, const wire::Restored& restored) {
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

  void heard(Seat& seat, const wire::Linked& linked) {
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

  void heard(Seat& seat, const wire::StepReport& report) {
    if (!seat.linked) throw wire::WireError("reported a step out of turn");
    const std::chrono::duration<double> took(std::min(report.compute_seconds + report.wait_seconds, kLongestStep));
    longest_step_ = std::max(longest_step_, std::chrono::duration_cast<Duration>(took));
    watcher_.stepped(seat.name(), report);
    seat.last_step = report.step;
    last_step_ = std::max(last_step_, report.step);
  }

  void heard(Seat& seat, const wire::Activity& activity) {
    if (!seat.linked) throw wire::WireError("was active out of turn");
    watcher_.active(seat.name(), activity);
  }

  void heard(Seat& seat, const wire::Evaluated& evaluation) {
    if (!seat.linked) throw wire::WireError("reported an evaluation out of turn");
    watcher_.evaluated(seat.name(), evaluation);
  }

  // Whoever is named may be gone by now.
  void heard(Seat& seat, const wire::Suspected& suspected) {
    if (!begun_ || !seat.linked) throw wire::WireError("suspected somebody out of turn");
    const auto found = std::ranges::find_if(
        seats_, [&](const auto& other) { return other->name() == suspected.culprit && !other->gone && !other->ended; });
    if (found == seats_.end() || stopping_) return;
    Seat& culprit = **found;
    const std::uint32_t by = plan_->peers[rank_of(seat)].cluster;
    if (by == plan_->peers[rank_of(culprit)].cluster) throw wire::WireError("suspected its own cluster");
    ++culprit.suspected_by[by];
    if (culprit.accusers.insert(seat.name()).second) {
      watcher_.suspected(culprit.name(), seat.name(), suspected.text);
    }
    if (is_convicted(culprit)) expel(culprit, suspected.text);
  }

  // One cluster alone may be the one that lies.
  bool is_convicted(const Seat& culprit) const {
    std::set<std::uint32_t> others;
    for (const wire::PlannedPeer& peer : plan_->peers) {
      if (is_whole(peer.cluster)) others.insert(peer.cluster);
    }
    others.erase(plan_->peers[rank_of(culprit)].cluster);
    std::size_t accusing = 0, times = 0;
    for (const auto& [cluster, how_often] : culprit.suspected_by) {
      if (!others.contains(cluster)) continue;
      ++accusing;
      times += how_often;
    }
    return others.size() == 1 ? times >= kSuspicionsOfOne : 2 * accusing > others.size();
  }

  void expel(Seat& culprit, const std::string& why) {
    if (!expelled_.insert(culprit.guest.key).second) return;
    remember();
    watcher_.expelled(culprit.name(), why);
    if (culprit.is_away) return gone(culprit, why);
    culprit.close(LinkError(Failure::kRefused, "", fmt::format("was expelled, because it {}", why)));
  }

  void heard(Seat& seat, const wire::Halted& halted) {
    if (!(stopping_ || dismissed_) || !begun_ || seat.halted) throw wire::WireError("halted out of turn");
    seat.halted = halted.step;
    agree_on_the_end();
  }

  // When it is known of all how far they have come, those who are behind may catch up.
  void agree_on_the_end() {
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

  void heard(Seat& seat, const wire::Saved& saved) {
    if (!begun_ || seat.ended || options_.incoming.empty()) throw wire::WireError("saved out of turn");
    if (seat.unfetched.size() >= kMaxUnfetched) throw wire::WireError("saves faster than anybody can fetch");
    std::uint64_t bytes = 0;
    for (const wire::FileFacts& file : saved.files) bytes += std::min(file.size, std::uint64_t{1} << 50);
    if (bytes > kBytesPerParameter * options_.parameters + kBytesBeside)
      throw wire::WireError("saved more than there can be");
    seat.unfetched.push_back(saved);
  }

  // Fetches what a peer has saved, one after another.
  static Task<> keep(std::shared_ptr<Core> self, std::shared_ptr<Seat> seat) {
    try {
      while (!seat->unfetched.empty() && !self->closed_) {
        const wire::Saved& saved = seat->unfetched.front();
        const auto folder = self->options_.incoming / fmt::format("{}-{}.tmp", seat->name(), self->fetched_++);
        for (const wire::FileFacts& file : saved.files) {
          auto fetching = seat->files->fetch(file, folder / file.name, [&](std::uint64_t) { self->goes_on(); });
          co_await std::move(fetching);
        }
        if (self->closed_) break;
        bool is_whole = false;
        auto keeping = aside(self->options_.aside, [&] { is_whole = self->watcher_.keep(saved.step, folder); });
        co_await std::move(keeping);
        if (self->closed_) break;
        if (is_whole) self->watcher_.saved(seat->name(), saved.step);
        seat->say(wire::Kept{.step = saved.step});
        seat->unfetched.pop_front();
      }
    } catch (const LinkError&) {
      seat->unfetched.clear();  // it is gone, or breaks the rules
      if (!seat->gone) seat->close(LinkError(Failure::kProtocol, "", "did not give what it had saved"));
    } catch (const std::exception&) {
      self->break_off(std::current_exception());
    }
    self->changed_.notify();
  }

  void heard(Seat& seat, const wire::Ended& summary) {
    if (!begun_ || seat.ended) throw wire::WireError("ended out of turn");
    seat.ended = true;
    watcher_.ended(seat.name(), summary);
    agree_on_the_end();
    agree_on_holding();
    changed_.notify();
  }

  // It goes with what it has; the others have to, too.
  void heard(Seat& seat, const wire::Failed& failed) {
    if (rank_of(seat) == seats_.size() || !plan_) refuse(seat, failed.text);  // it could not do what it was asked for
    seat.ended = true;
    const bool is_own = failed.culprit.empty();
    if (goes_on_without(seat, failed.text)) {
      seat.gone = true;
      seat.close(LinkError(Failure::kLate, "", "the others go on without it"));
    } else if (begun_ || !stopping_) {  // who is told to stop before the beginning has nothing to lose
      fail(is_own ? seat.name() : failed.culprit, failed.text, is_own ? "could not go on" : "was lost");
    }
    agree_on_the_end();
    changed_.notify();
  }

  template <typename Other>
  void heard(Seat&, const Other&) {
    throw wire::WireError("said what only a coordinator says");
  }

  void gone(Seat& seat, const std::string& why) {
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
    if (!goes_on_without(seat, why) && (begun_ || !stopping_)) {
      fail(seat.name(), why);  // who was told to stop before the beginning just leaves
    }
    agree_on_the_end();
    agree_on_holding();
    changed_.notify();
  }

  wire::Plan plan_without(std::size_t rank) const {
    wire::Plan next = *plan_;
    next.peers[rank].here = false;
    next.peers[rank].empty = true;
    for (wire::PlannedPeer& mate : next.peers) {
      if (mate.cluster == next.peers[rank].cluster) mate.restores = mate.rewinds = false;
    }
    return next;
  }

  bool can_do_without(const wire::Plan& next) const { return options_.goes_on(next) || can_rewind(next); }

  // The others get another plan, if there is one.
  bool goes_on_without(Seat& seat, const std::string& why) {
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
    // Whoever is linking up would wait for that one, too, and others for it.
    for (const auto& other : seats_) {
      if (!is_entering(*other) || other->linked) continue;
      other->close(LinkError(Failure::kLate, "", "another peer was lost while it linked up"));
    }
    settle_latecomers();
    expect_stand_in();
    have_second_thoughts();
    return true;
  }

  void fail(const std::string& peer, const std::string& why, const char* what = "was lost") {
    if (failure_) return;
    give_up(fmt::format("{} {}: {}", peer, what, why));
    tell([&] { watcher_.lost(peer, why); });
  }

  void give_up(const std::string& why) {
    if (!failure_) failure_ = why;
    stop(*failure_);
  }

  // Somebody has not done in time what it had to do.
  void late() {
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

  Clock& clock_;
  net::Host& host_;
  CoordinatorOptions options_;
  Watcher& watcher_;
  net::Relay relay_;                               // for peers that cannot dial each other
  Alarm stand_in_;                                 // when somebody is asked to,
  Alarm second_thoughts_;                          // whether another plan would be better,
  Alarm gathering_;                                // and until when those who were there are expected again for it
  Alarm getting_on_;                               // when nobody has said anything for long
  std::set<net::Fingerprint> awaited_;             // who they are
  bool is_gathering_ = false;                      // others may join them
  std::uint32_t last_generation_ = 0;              // of the plans before that
  std::vector<std::shared_ptr<Seat>> seats_;       // in the order of ranks, once there is a plan
  std::vector<std::shared_ptr<Seat>> latecomers_;  // who have no place yet
  std::vector<std::shared_ptr<Seat>> parked_;      // who have come when all others were to end for another plan
  std::set<net::Fingerprint> expelled_;
  std::optional<wire::Plan> plan_;
  std::optional<std::string> failure_;
  Time deadline_ = kNever;  // for what everybody has to do now
  Duration longest_step_{};
  std::uint64_t last_step_ = 0;           // that anybody has reported
  std::optional<Time> dismissed_;         // when those who wait were told that it is over
  std::optional<Time> vacant_since_;      // all wait for somebody to come
  std::optional<std::uint64_t> covered_;  // the last step to which the only cluster could go back
  bool planning_ = false, begun_ = false, stopping_ = false, closed_ = false;
  bool moving_ = false;                      // everybody ends for another plan
  bool is_held_ = false;                     // nobody is to begin another step
  bool saves_ = false;                       // all hold for a checkpoint, or are about to
  bool asks_to_hold_ = false;                // they were told to, for one of the two,
  std::uint32_t holds_ = 0;                  // so often
  std::optional<std::uint64_t> save_after_;  // the last checkpoint that was asked for
  std::optional<std::uint64_t> end_;         // the last step, if the run is to end before its end
  std::size_t strangers_ = 0;                // who have come and not introduced themselves
  std::uint64_t fetched_ = 0;                // checkpoints, or parts of them
  std::uint32_t surveys_ = 0, failed_surveys_ = 0;
  std::exception_ptr broken_;
  std::string broken_why_;
  Signal changed_;
};

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
