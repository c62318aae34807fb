#include "swarm/peer.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "measure/survey.h"
#include "swarm/internal/life.h"
#include "swarm/internal/links.h"

namespace rookery::swarm {
namespace {

using internal::Life;
using internal::Links;
using internal::Session;
using net::Failure;
using net::LinkError;

template <typename Expected>
Expected expect(const wire::SwarmMessage& message, const std::string& coordinator) {
  if (const auto* stop = std::get_if<wire::Stop>(&message)) {
    throw LinkError(Failure::kCancelled, coordinator, fmt::format("has stopped the run: {}", stop->reason));
  }
  if (const auto* content = std::get_if<Expected>(&message)) return *content;
  throw wire::WireError("a message of the swarm out of turn");
}

// Whose link has ended, though it is there by the plan: said once, when the coordinator can hear it.
void say_who_is_missed(Life& life, const Links& links) {
  for (std::size_t rank = 0; rank < life.plan.peers.size(); ++rank) {
    const wire::PlannedPeer& peer = life.plan.peers[rank];
    const net::Link* link = links.links()[rank];
    if (!peer.here || link == nullptr || !link->has_ended() || life.is_away || life.over) continue;
    if (!life.missed.emplace(rank, peer.came).second) continue;
    life.say(wire::Missed{.who = peer.contact.name, .came = peer.came, .text = "the link to it has ended"});
  }
}

// What follows a plan has the same places; somebody new may be where nobody was.
void check_next(const wire::Plan& next, const wire::Plan& plan) {
  const auto same = [](const wire::PlannedPeer& a, const wire::PlannedPeer& b) {
    return (a.contact == b.contact || !b.here || a.came > b.came) && a.cluster == b.cluster && a.stage == b.stage &&
           a.begin == b.begin && a.end == b.end && a.weight == b.weight;
  };
  if (next.generation <= plan.generation) throw wire::WireError("a plan of a generation that is over");
  if (!std::ranges::equal(next.peers, plan.peers, same)) throw wire::WireError("a plan with other places");
}

void take_next(const wire::Plan& plan, Life& life, Links& links) {
  check_next(plan, life.plan);
  life.plan = plan;
  const wire::PlannedPeer& own = plan.peers[links.rank()];
  if (own.restores && own.rewinds) life.forget_after(own.from);
  links.expect(plan, life.background);
  links.part_with_lost(plan);
  if (life.has_begun) say_who_is_missed(life, links);
}

void obey(const wire::SwarmMessage& message, Life& life, Links& links, Work& work) {
  if (const auto* stop = std::get_if<wire::Stop>(&message)) {
    life.moves = stop->moves;
    life.say(wire::Halted{.step = work.halt()});
  } else if (const auto* end = std::get_if<wire::EndAt>(&message)) {
    work.end_at(end->step);
  } else if (const auto* hold = std::get_if<wire::Hold>(&message)) {
    life.say(wire::Holding{.step = work.hold(), .number = hold->number});
  } else if (const auto* release = std::get_if<wire::Release>(&message)) {
    work.release(release->save_after, release->holds_again);
  } else if (const auto* kept = std::get_if<wire::Kept>(&message)) {
    work.kept(kept->step);
  } else if (std::holds_alternative<wire::StandIn>(message)) {
    if (life.options.stand_in) life.options.stand_in();
  } else if (const auto* covered = std::get_if<wire::Covered>(&message)) {
    work.covered(covered->step);
  } else if (const auto* plan = std::get_if<wire::Plan>(&message)) {
    take_next(*plan, life, links);
    work.changed(*plan);
  } else {
    throw wire::WireError("a message of the swarm out of turn");
  }
}

// Until the link to the coordinator has ended. What follows from what it says follows at once.
Task<LinkError> hear_all(Life& life, Links& links, Work& work) {
  const std::shared_ptr<Session> session = life.session;
  for (;;) {
    try {
      auto hearing = session->talk.hear();
      const wire::SwarmMessage message = co_await std::move(hearing);
      // When the work is over, others may still have to know how rounds have ended.
      if (!life.over || std::holds_alternative<wire::Plan>(message)) obey(message, life, links, work);
    } catch (const LinkError& error) {
      co_return error;
    } catch (const wire::WireError& error) {
      co_return LinkError(Failure::kProtocol, life.coordinator, error.what());
    }
  }
}

// Makes another link to the coordinator, or to another one that has taken up the run. Throws LinkError: refused, if
// this peer has no place any more; or why there is none, if there was none for long enough.
Task<> come_back(Life& life) {
  constexpr Duration kFirstPause = std::chrono::milliseconds(100), kLongestPause = std::chrono::seconds(2);
  constexpr Duration kAnswer = std::chrono::seconds(10);
  const Time deadline = life.clock.now() + life.options.patience;
  for (Duration pause = kFirstPause;; pause = std::min(2 * pause, kLongestPause)) {
    auto sleeping = life.clock.sleep_for(pause);
    co_await std::move(sleeping);
    bool is_admitted = false;  // before that, a refusal may only mean that the link before is not missed yet
    try {
      auto dialling = life.host.dial(life.options.ticket);
      life.begin(co_await std::move(dialling));
      is_admitted = true;
      Alarm alarm(life.clock);
      alarm.set(life.clock.now() + kAnswer, [session = life.session] {
        session->link->close(LinkError(Failure::kLate, session->link->peer(), "does not answer"));
      });
      life.session->talk.say(
          wire::Returned{.generation = life.plan.generation, .introduction = life.introduction, .ready = life.ready});
      auto hearing = life.session->talk.hear();
      const auto known = expect<wire::Known>(co_await std::move(hearing), life.coordinator);
      auto repeating = life.say_again(known.step);
      co_await std::move(repeating);
      life.is_away = false;
      co_return;
    } catch (const LinkError& error) {
      if (error.failure() == Failure::kRefused && is_admitted) throw;
      if (life.clock.now() >= deadline) {
        throw LinkError(Failure::kClosed, life.coordinator,
                        fmt::format("was lost, and does not return: {}", error.what()));
      }
    } catch (const wire::WireError& error) {
      throw LinkError(Failure::kProtocol, life.coordinator, error.what());
    }
  }
}

// While the work goes on: what the coordinator says, or its end. A coordinator that says why it ends a link means it;
// else there may be another link.
Task<> listen(std::shared_ptr<Life> life, Links* links, Work* work) {
  co_await yield();  // the work begins first
  for (bool is_there = true; is_there;) {
    auto hearing = hear_all(*life, *links, *work);
    LinkError end = co_await std::move(hearing);
    is_there = false;
    const bool may_return = end.failure() == Failure::kClosed || end.failure() == Failure::kSilent;
    if (may_return && life->options.patience > Duration{}) {
      spdlog::warn("{}; training on, and trying to reach it again", end.what());
      life->is_away = true;
      work->away();
      try {
        auto returning = come_back(*life);
        co_await std::move(returning);
        is_there = true;
        spdlog::info("{} is there again", life->coordinator);
      } catch (const LinkError& error) {
        end = error;
      }
    }
    if (is_there) {
      links->use_relay(life->session->link);
      life->missed.clear();  // it may not know
      say_who_is_missed(*life, *links);
      if (life->over) {
        if (life->last) life->say(*life->last);
      } else {
        work->returned(life->session->files);
      }
      continue;
    }
    const bool is_displaced = end.failure() == Failure::kLate || end.failure() == Failure::kRefused;
    if (is_displaced && life->moves && !life->has_failed) life->displaced = end;
    if (life->over && (is_displaced || !may_return) && !life->has_failed) continue;  // it has let this one go
    if (is_displaced) life->displaced = end;
    life->coordinator_lost = end;
    if (!life->over) work->abandon();
  }
  links->expect_nobody();
}

// Links up with the others, finds out what the links can carry, and how computing goes while all do, and says so. What
// fails is for the coordinator to judge: it may be that somebody has just left.
Task<> survey(Clock& clock, Life& life, Links& links, Work& work, wire::Survey order) {
  wire::Surveyed surveyed{.number = order.number};
  try {
    auto connecting = links.connect(std::move(order));
    co_await std::move(connecting);
    auto looking = measure::survey(clock, links.rank(), links.links());
    for (const measure::SurveyedLink& link : co_await std::move(looking)) {
      surveyed.links.push_back({.peer = static_cast<std::uint32_t>(link.peer),
                                .bandwidth = link.bandwidth,
                                .latency = link.latency,
                                .while_sharing = link.while_sharing});
    }
    auto trying = work.try_out();
    surveyed.crowding = co_await std::move(trying);
  } catch (const LinkError& error) {
    surveyed.culprit = error.peer();
    surveyed.text = error.text();
    links.give_up(LinkError(Failure::kCancelled, error.peer(), surveyed.text));
  }
  life.say(surveyed);
}

// Surveys, and in the end the plan. A survey that is still under way when something else is said has been given up.
Task<wire::Plan> hear_plan(Clock& clock, Life& life, Links& links, Work& work) {
  TaskGroup surveys(clock.executor());
  for (;;) {
    std::optional<wire::SwarmMessage> message;
    std::exception_ptr failure;
    try {
      auto hearing = life.session->talk.hear();
      message = co_await std::move(hearing);
    } catch (const Error&) {
      failure = std::current_exception();
    }
    if (surveys.running() > 0) links.give_up(LinkError(Failure::kCancelled, "", "there is another survey"));
    auto joined = surveys.join();
    co_await std::move(joined);
    if (failure) std::rethrow_exception(failure);
    if (const auto* order = std::get_if<wire::Survey>(&*message)) {
      surveys.spawn(survey(clock, life, links, work, *order));
      continue;
    }
    auto plan = expect<wire::Plan>(*message, life.coordinator);
    if (links.peers().empty()) {
      life.is_late = true;  // the run has begun
      links.set_out(plan);
      co_return plan;
    }
    const auto same = [](const wire::PlannedPeer& peer, const wire::Contact& contact) {
      return peer.contact == contact;
    };
    if (!std::ranges::equal(plan.peers, links.peers(), same)) throw wire::WireError("a plan for others");
    co_return plan;
  }
}

// Those who begin together have their links since their survey. If it cannot have them all, what it hears next is why.
Task<> link_up(Life& life, Links& links) {
  try {
    if (life.is_late) {
      auto connecting = links.connect_late();
      co_await std::move(connecting);
    }
    life.say(wire::Linked{.generation = life.plan.generation});
  } catch (const LinkError& error) {
    life.session->link->close(error);
  }
}

// The plan may change before it begins, if the others have begun already.
Task<> hear_begin(Life& life, Links& links) {
  for (;;) {
    auto hearing = life.session->talk.hear();
    const wire::SwarmMessage message = co_await std::move(hearing);
    if (const auto* plan = std::get_if<wire::Plan>(&message)) {
      take_next(*plan, life, links);
      continue;
    }
    expect<wire::Begin>(message, life.coordinator);
    co_return;
  }
}

Task<> live(std::shared_ptr<Life> life, Work& work) {
  const PeerOptions& options = life->options;
  const wire::Contact own{.name = life->host.options().name,
                          .fingerprint = life->host.identity().fingerprint().bytes(),
                          .addresses = options.addresses};
  life->introduction = {
      .contact = own, .memory = options.memory, .host = options.computer, .stands_in = options.stands_in};
  life->say(life->introduction);
  auto assigning = life->session->talk.hear();
  const auto assignment = expect<wire::Assignment>(co_await std::move(assigning), life->coordinator);
  life->is_admitted = true;

  std::exception_ptr failure;
  bool is_links_fault = false;
  wire::Failed failed;
  try {
    auto preparing = work.prepare(assignment, life->session->files);
    life->ready = co_await std::move(preparing);
    life->say(life->ready);
  } catch (const std::exception& error) {
    failure = std::current_exception();
    failed.text = error.what();
  }
  wire::Plan plan;
  Links links(life->clock, life->host, options, life->session->link);
  if (!failure) {
    auto planning = hear_plan(life->clock, *life, links, work);
    plan = co_await std::move(planning);
    life->plan = plan;
  }
  if (!failure) {
    TaskGroup linking(life->clock.executor());
    linking.spawn(link_up(*life, links));
    std::exception_ptr trouble;
    try {
      auto beginning = hear_begin(*life, links);
      co_await std::move(beginning);
    } catch (const Error&) {
      trouble = std::current_exception();
    }
    if (trouble && life->is_late) links.give_up(LinkError(Failure::kCancelled, "", "does not take part after all"));
    auto linked = linking.join();
    co_await std::move(linked);
    if (trouble) {
      links.expect_nobody();
      auto resting = life->background.join();
      co_await std::move(resting);
      std::rethrow_exception(trouble);
    }
    links.tell_who_is_missed([weak = std::weak_ptr(life), &links] {
      if (const auto still = weak.lock()) say_who_is_missed(*still, links);
    });
    life->has_begun = true;
    life->background.spawn(listen(life, &links, &work));
    try {
      auto training = work.train({.plan = life->plan, .rank = links.rank(), .links = &links.links()},
                                 [life](const wire::SwarmMessage& message) { life->say(message); });
      const wire::Ended ended = co_await std::move(training);
      life->say(ended);
    } catch (const LinkError& error) {
      failure = std::current_exception();
      is_links_fault = true;
      failed = {.culprit = error.peer(), .text = std::string(error.text())};
    } catch (const std::exception& error) {  // libraries throw their own
      failure = std::current_exception();
      failed.text = error.what();
    }
  }
  life->over = true;
  life->has_failed = failure != nullptr;
  if (failure) {
    life->say(failed);
    // The others learn who is to blame before they miss this one.
    links.close(LinkError(Failure::kCancelled, failed.culprit, failed.text));
  }
  if (life->background.running() == 0) {  // it did not come to a part of its own
    auto leaving = life->session->link->ended();
    co_await std::move(leaving);
  }
  auto resting = life->background.join();
  co_await std::move(resting);
  work.over();
  if (life->displaced && (!failure || is_links_fault)) throw Displaced(*life->displaced, life->has_reported());
  if (life->coordinator_lost) throw LinkError(*life->coordinator_lost);
  if (failure) std::rethrow_exception(failure);
}

Task<net::Meeting> meet(net::Host& host, const wire::Ticket& ticket) {
  try {
    auto dialling = host.dial(ticket);
    net::Meeting meeting = co_await std::move(dialling);
    co_return meeting;
  } catch (const LinkError& error) {
    throw NotMet(error.failure(), error.peer(), error.text());
  }
}

}  // namespace

Task<> take_part(Clock& clock, net::Host& host, PeerOptions options, Work& work) {
  auto meeting = meet(host, options.ticket);
  const auto life = std::make_shared<Life>(clock, host, options, co_await std::move(meeting));
  try {
    auto living = live(life, work);
    co_await std::move(living);
  } catch (const LinkError& error) {
    // It was waiting for its part, or somebody else who was to link up with it was away.
    const bool may_return = error.failure() == Failure::kClosed || error.failure() == Failure::kSilent ||
                            (life->is_late && error.failure() != Failure::kCancelled &&
                             (error.failure() != Failure::kRefused || error.peer() != life->coordinator));
    const bool waits = life->is_admitted || options.patience > Duration{};  // also for an assignment
    if (life->has_begun || !waits || !may_return) throw;
    throw Displaced(error, false);
  }
}

}  // namespace rookery::swarm
