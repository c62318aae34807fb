#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/signal.h"
#include "net/host.h"
#include "net/relay.h"
#include "swarm/coordinator.h"
#include "swarm/internal/seat.h"
#include "wire/frame.h"
#include "wire/swarm_message.h"

namespace rookery::swarm {

// The inside of a coordinator. Lives as long as its coroutines, and longer than the handle. What it does is in several
// files, named below where their part of it is declared; nobody else includes this.
//
// Whatever a peer says comes to heard(), which throws WireError if it was not to be said, or not then, and LinkError if
// the peer is refused.
class Coordinator::Core : public std::enable_shared_from_this<Core> {
 public:
  Core(Clock& clock, net::Host& host, CoordinatorOptions options, Watcher& watcher);

  void start();  // Requires: is owned by a shared_ptr

  // Nobody is to call back into what has gone.
  void abandon();

  // For the handle, which says what they do.
  static Task<> run(std::shared_ptr<Core> self);
  void stop(const std::string& reason);
  void hold();
  void release();
  void save();

 private:
  using Seat = internal::Seat;

  // In coordinator.cc: the course of a run.

  // Until everybody has ended.
  static Task<> attend(std::shared_ptr<Core> self);

  // Takes up a run that another coordinator has begun: its peers train on, and return.
  void take_up(const Memory& memory);

  // What another coordinator would need to know, before anybody acts on it.
  void remember();

  void heard(Seat& seat, const wire::StepReport& report);
  void heard(Seat& seat, const wire::Activity& activity);
  void heard(Seat& seat, const wire::Evaluated& evaluation);

  template <typename Other>
  void heard(Seat&, const Other&) {
    throw wire::WireError("said what only a coordinator says");
  }

  // Somebody has said something, so they are not stuck.
  void has_got_on();
  void begin_rounds_anew();

  // Whoever watches cannot go on (the disk is full), so nothing would come of what the peers still do.
  void break_off(std::exception_ptr why, const std::string& text = "cannot go on");

  template <typename Tell>
  void tell(const Tell& what) {
    try {
      what();
    } catch (const std::exception&) {
      break_off(std::current_exception());
    }
  }

  // How many seats there are if it is none of them.
  std::size_t rank_of(const Seat& seat) const;

  // All its places are taken by those who do their work.
  bool is_whole(std::uint32_t cluster) const;

  // Its cluster has lost somebody, or it has come later itself: it does no work yet.
  bool waits(const Seat& seat) const { return !is_whole(plan_->peers[rank_of(seat)].cluster); }

  // Somebody who has come later, and does no work yet.
  bool is_entering(const Seat& seat) const { return seat.is_late && !seat.gone && !plan_->peers[rank_of(seat)].here; }

  // All places of a cluster are taken again, and all who have them are `ready`.
  template <typename IsReady>
  bool all_of_cluster(std::uint32_t cluster, const IsReady& is_ready) const {
    for (std::size_t rank = 0; rank < seats_.size(); ++rank) {
      if (plan_->peers[rank].cluster != cluster) continue;
      if (seats_[rank]->gone || seats_[rank]->ended || !is_ready(*seats_[rank])) return false;
    }
    return true;
  }

  // In admission.cc: who comes.

  // Takes whoever comes, for as long as the host is open.
  static Task<> admit(std::shared_ptr<Core> self);

  // Hears what one of them says, until its link ends.
  static Task<> serve(std::shared_ptr<Core> self, std::shared_ptr<Seat> seat);

  // One who only looks on, and has some time to look again.
  static Task<> show(std::shared_ptr<Core> self, std::shared_ptr<Seat> seat, wire::Look look);

  void heard(Seat& seat, const wire::Introduction& introduction);
  void seat_down(const std::shared_ptr<Seat>& seat);
  void heard(Seat& seat, const wire::Ready& ready);

  // Refuses whoever has another model or other data.
  void check(Seat& seat, const wire::Ready& ready);

  // Closes its link, and throws LinkError.
  [[noreturn]] void refuse(Seat& seat, const std::string& why);

  // In planning.cc: the first plan, and how generations follow each other.

  void plan_if_all_are_ready();
  bool all_are_ready() const;
  bool may_plan() const { return !closed_ && !stopping_ && !broken_ && all_are_ready(); }

  // Whoever leaves while the plan is made makes room for another, and there is another plan.
  static Task<> make_plan(std::shared_ptr<Core> self);

  // Peers link up and find out about their links. False if there has to be another one: somebody has gone, or did not
  // reach another. Throws if some of them cannot.
  static Task<bool> survey(std::shared_ptr<Core> self, std::vector<std::shared_ptr<Seat>> peers);
  void heard(Seat& seat, const wire::Surveyed& surveyed);

  static wire::Plan plan_for(const std::vector<std::shared_ptr<Seat>>& seats, std::uint32_t generation);

  // What it has proved, not what it says.
  static wire::Contact contact_of(const Seat& seat);

  static Means means_of(const Seat& seat);  // Requires: is ready

  void announce(wire::Plan plan);

  // Another plan, with a change in the cluster of this rank.
  void announce_next(wire::Plan next, std::size_t rank);

  // All begin together; whoever has come later begins alone.
  void heard(Seat& seat, const wire::Linked& linked);

  // In places.cc: who gets a place that is free.

  // Nobody does its work any more, or ever will.
  bool is_free(std::size_t rank) const;

  // Whoever comes while no place is free waits for one: somebody may be lost at any time.
  bool may_be_spare() const;

  bool somebody_links_up() const;

  // One after another, so that each has links to those before it.
  void settle_latecomers();

  // Whoever comes back gets the place that it had: nobody is in a plan twice. False if there is none that it could
  // fill, for now.
  bool take_place(const std::shared_ptr<Seat>& seat);

  // Whoever stands in does the work of two: somebody who has come for good gets its place.
  void relieve_stand_in();

  // If nobody comes for a while, one who is there stands in for one who was lost.
  void expect_stand_in();

  // One at a time. Those of a cluster that waits have nothing else to do.
  void ask_to_stand_in();

  // In restoration.cc: how a cluster becomes whole again.

  // Those who are new in a cluster have their links, and the others have stopped: all get what belongs to their places.
  void restore(std::uint32_t cluster);
  void heard(Seat& seat, const wire::Paused& paused);
  void heard(Seat& seat, const wire::Restored& restored);

  // A cluster is to get what others have, or has got it.
  void enter(std::uint32_t cluster, bool restored);

  // The first rank of a cluster.
  std::size_t rank_in(std::uint32_t cluster) const;

  bool can_rewind(const wire::Plan& plan) const { return covered_ && options_.rewinds && options_.rewinds(plan); }
  void rewind(wire::PlannedPeer& place, bool restored) const;

  // All stages have a copy of the one before them.
  void heard(Seat& seat, const wire::Held& held);

  // In absence.cc: who is silent, missed, or lost.

  bool may_return(const Seat& seat) const;

  // Nothing is heard of somebody, which may be the link's fault, or this end's: it trains on if it can, and returns. If
  // others miss it too, nobody waits for it.
  void expect_back(Seat& seat, const std::string& why, Time quiet_from);

  // Somebody who trains has made another link: it goes on from what is known of it.
  void take_back(const std::shared_ptr<Seat>& seat, const wire::Returned& returned);

  // Another coordinator knew it; this one has taken up the run.
  void introduce_again(Seat& seat, const wire::Returned& returned);

  void heard(Seat& seat, const wire::Missed& missed);

  // One who has no link to it any more, and trains.
  Seat* who_misses(const Seat& seat) const;

  // Two witnesses are enough: somebody misses it, and here nothing is heard of it, either. Else it may be that link
  // alone; but what is not noticed here yet may be soon.
  void judge(Seat& seat);

  // Two who are both there have no link to each other, so one has to go: whoever has lost more links, or the one of
  // higher rank. It makes others when it joins again. A link that has ended has done so for both: whoever is alone in
  // missing the other is not believed.
  void look_again(Seat& seat);

  void part_with(Seat& seat, const std::string& why);
  void gone(Seat& seat, const std::string& why);

  // The others get another plan, if there is one.
  bool goes_on_without(Seat& seat, const std::string& why);

  // If there is none: they begin anew, from what was saved.
  bool can_go_back_without(const Seat& seat) const;
  void go_back();
  wire::Plan plan_without(std::size_t rank) const;
  bool can_do_without(const wire::Plan& next) const { return options_.goes_on(next) || can_rewind(next); }

  // In suspicion.cc: who brings what cannot be right.

  // Whoever is named may be gone by now.
  void heard(Seat& seat, const wire::Suspected& suspected);

  void forget_old_suspicions(Seat& culprit) const;

  // One cluster alone may be the one that lies.
  bool is_convicted(const Seat& culprit) const;

  void expel(Seat& culprit, const std::string& why);

  // In holding.cc: all hold, and save after the same step.

  void ask_to_hold();
  void heard(Seat& seat, const wire::Holding& holding);

  // When it is known of all in which step they are, nobody goes beyond the last of these before it is saved.
  void agree_on_holding();

  // They do when they have done the steps that all of them have begun.
  void tell_when_all_hold();

  // Somebody who may not have heard it: it was away, or not part of a whole cluster. It goes on after so many steps.
  void tell_of_holding(Seat& seat, std::uint64_t from);

  // In checkpoints.cc: checkpoints that peers send.

  void heard(Seat& seat, const wire::Saved& saved);

  // Fetches what a peer has saved, one after another.
  static Task<> keep(std::shared_ptr<Core> self, std::shared_ptr<Seat> seat);

  // In moving.cc: whether another plan would be better, and how all come together again for it.

  // Whether another plan would be better is asked a while after something has changed, as long as there is a reason:
  // nobody has some place, or somebody has none, or does the work of two.
  void have_second_thoughts();
  bool has_reason_to_move() const;

  // Those who are there, with a place or without; nothing if too little is known of one of them, or somebody is on its
  // way.
  std::optional<std::vector<Means>> present() const;

  static Task<> consider(std::shared_ptr<Core> self);

  // If everybody has ended for another plan: those who were there are expected again, and nobody else is turned away.
  static Task<bool> begin_anew(std::shared_ptr<Core> self);

  void leave_plan();
  void gather();

  // Whoever has not come again by now waits for a place when it does.
  void gather_no_longer();

  bool is_anew() const { return last_generation_ > 0; }

  // In ending.cc: how a run ends.

  void end_all(const std::string& reason);
  void heard(Seat& seat, const wire::Halted& halted);

  // When it is known of all how far they have come, those who are behind may catch up.
  void agree_on_the_end();

  void heard(Seat& seat, const wire::Ended& summary);

  // It goes with what it has; the others have to, too.
  void heard(Seat& seat, const wire::Failed& failed);

  // It has joined again before this coordinator knew that it had ended by the plan before.
  void has_ended(Seat& seat);

  bool finished() const;

  // Those who train have ended: those who wait for somebody need not wait any more.
  void dismiss_who_waits();

  // Something has happened: whoever is to end has time again.
  void goes_on();

  // Somebody has not done in time what it had to do.
  void late();

  void fail(const std::string& peer, const std::string& why, const char* what = "was lost");
  void give_up(const std::string& why);

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
  bool all_hold_ = false;                    // and do, for the first,
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

}  // namespace rookery::swarm
