#include "swarm/peer.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

#include "base/error.h"
#include "base/log.h"
#include "measure/survey.h"
#include "net/connector.h"
#include "swarm/talk.h"

namespace rookery::swarm {
namespace {

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

std::size_t rank_of(const std::vector<wire::Contact>& peers, const net::Fingerprint& key) {
  const auto same = [&](const wire::Contact& peer) { return peer.fingerprint == key.bytes(); };
  return static_cast<std::size_t>(std::ranges::find_if(peers, same) - peers.begin());
}

// The links to all other peers of a swarm. Of two peers the one of lower rank connects; those that cannot dial each
// other talk through the coordinator. When somebody has gone and another has come, there is another survey, and there
// are new links: the two ends of one agree on the survey that it is for.
//
// Whoever comes when the run has begun connects to all who are there.
class Links {
 public:
  Links(Clock& clock, net::Host& host, const PeerOptions& options, std::shared_ptr<net::Link> coordinator)
      : clock_(clock),
        own_(host.identity().fingerprint()),
        patience_(options.links),
        connector_(clock, host, options.addresses, [this](const net::Guest& guest) { check(guest); }) {
    connector_.use_relay(std::move(coordinator));
  }

  // Throws LinkError with the name of the peer to which there is no link.
  Task<> connect(wire::Survey survey) {
    begin(std::move(survey));
    TaskGroup group(clock_.executor());
    group.spawn(accept_lower());
    for (std::size_t other = rank_ + 1; other < meetings_.size(); ++other) group.spawn(connect_to(other));
    auto joined = group.join();
    co_await std::move(joined);
    update();
  }

  // To those who are there, if only to wait for others, by a plan of a run that has begun. Throws LinkError with the
  // name of the peer to which there is no link.
  Task<> connect_late(wire::Plan plan) {
    begin(survey_of(plan));
    for (std::size_t other = 0; other < plan.peers.size(); ++other) came_[other] = plan.peers[other].came;
    TaskGroup group(clock_.executor());
    for (std::size_t other = 0; other < plan.peers.size(); ++other) {
      if (!plan.peers[other].empty && other != rank_) group.spawn(connect_to(other));
    }
    auto joined = group.join();
    co_await std::move(joined);
    update();
  }

  // Those who have come to a place since the plan before connect to this one; in the background, until it is too late.
  void expect(const wire::Plan& plan, TaskGroup& background) {
    for (std::size_t other = 0; other < plan.peers.size(); ++other) {
      if (other == rank_ || plan.peers[other].came == came_[other]) continue;
      survey_.peers[other] = plan.peers[other].contact;
      came_[other] = plan.peers[other].came;
      if (meetings_[other].link) before_.push_back(std::move(meetings_[other]));
      meetings_[other] = {};
      expected_.insert(other);
    }
    update();
    deadline_ = clock_.now() + patience_;
    if (expected_.empty() || std::exchange(accepts_latecomers_, true)) return;
    background.spawn(accept_latecomers());
  }

  // Those who have no place any more may be silent, and this end may not have noticed yet: nobody waits for them.
  void part_with_lost(const wire::Plan& plan) {
    for (std::size_t other = 0; other < plan.peers.size(); ++other) {
      net::Link* link = meetings_[other].link.get();
      if (!plan.peers[other].empty || link == nullptr || link->has_ended()) continue;
      link->close(LinkError(Failure::kLate, "", "the others go on without it"));
    }
  }

  // From now on: whenever a link to whoever has a place has ended.
  using Missed = std::function<void()>;
  void tell_who_is_missed(Missed missed) {
    missed_ = std::make_shared<Missed>(std::move(missed));
    for (std::size_t rank = 0; rank < links_.size(); ++rank) watch(rank);
  }

  // Calls go through the coordinator by this link.
  void use_relay(std::shared_ptr<net::Link> coordinator) { connector_.use_relay(std::move(coordinator)); }

  void expect_nobody() {
    expected_.clear();
    deadline_ = clock_.now();
    connector_.stop_accepting();
  }

  std::size_t rank() const { return rank_; }
  const std::vector<wire::Contact>& peers() const { return survey_.peers; }
  const std::vector<net::Link*>& links() const { return links_; }

  void close(const LinkError& reason) {
    for (const net::Meeting& meeting : meetings_) {
      if (meeting.link) meeting.link->close(reason);
    }
  }

  // The same, and whoever is still connecting waits for nobody any more.
  void give_up(const LinkError& reason) {
    given_up_ = true;
    connector_.stop_accepting();
    close(reason);
  }

 private:
  static constexpr net::ChannelId kGreeting{.purpose = 0x0310};
  static constexpr Duration kTryAgain = std::chrono::milliseconds(100);
  static constexpr std::uint32_t kLate = std::numeric_limits<std::uint32_t>::max();  // instead of a survey's number

  void begin(wire::Survey survey) {
    meetings_.clear();
    survey_ = std::move(survey);
    given_up_ = false;
    rank_ = rank_of(survey_.peers, own_);
    if (rank_ == survey_.peers.size()) throw wire::WireError("a swarm without this peer");
    meetings_.resize(survey_.peers.size());
    came_.assign(survey_.peers.size(), 0);
    deadline_ = clock_.now() + patience_;
  }

  static wire::Survey survey_of(const wire::Plan& plan) {
    wire::Survey survey{.number = kLate};
    for (const wire::PlannedPeer& peer : plan.peers) survey.peers.push_back(peer.contact);
    return survey;
  }

  void update() {
    const std::vector<net::Link*> before = std::exchange(links_, {});
    for (const net::Meeting& meeting : meetings_) links_.push_back(meeting.link.get());
    for (std::size_t rank = 0; rank < links_.size(); ++rank) {
      if (rank >= before.size() || links_[rank] != before[rank]) watch(rank);
    }
  }

  // Links to those who were lost are kept, so no two have one address.
  void watch(std::size_t rank) {
    if (!missed_ || links_[rank] == nullptr) return;
    const auto wait = [](std::weak_ptr<Missed> told, const std::vector<net::Link*>& links, std::size_t of,
                         net::Link* link) -> Task<> {
      auto ending = link->ended();
      co_await std::move(ending);
      const auto missed = told.lock();
      if (missed && links[of] == link) (*missed)();
    };
    boost::asio::co_spawn(clock_.executor(), wait(missed_, links_, rank, links_[rank]), boost::asio::detached);
  }

  void check(const net::Guest& guest) const {
    const std::size_t rank = rank_of(survey_.peers, guest.key);
    if (rank >= rank_ && !expected_.contains(rank)) throw LinkError(Failure::kRefused, "", "is not expected here");
  }

  // One after another, as long as some are expected.
  Task<> accept_latecomers() {
    TaskGroup greetings(clock_.executor());
    while (!expected_.empty() && clock_.now() < deadline_) {
      bool has_failed = false;
      try {
        auto accepting = connector_.accept(deadline_);
        greetings.spawn(be_greeted(co_await std::move(accepting), kLate));
      } catch (const LinkError&) {
        has_failed = true;  // nobody is expected any more, or has come in time: the coordinator will say so
      }
      if (!has_failed) continue;
      auto waiting = clock_.sleep_for(kTryAgain);
      co_await std::move(waiting);
    }
    accepts_latecomers_ = false;
    auto joined = greetings.join();
    co_await std::move(joined);
  }

  // The other may not have heard of this survey yet, and refuse; then it is tried again.
  Task<> connect_to(std::size_t other) {
    for (;;) {
      try {
        auto connecting = connector_.connect(survey_.peers[other]);
        net::Connection connection = co_await std::move(connecting);
        auto greeting = greet(*connection.meeting.link);
        if (co_await std::move(greeting)) {
          meetings_[other] = std::move(connection.meeting);
          if (!given_up_) co_return;
          close(LinkError(Failure::kCancelled, "", "there is another survey"));
        }
        if (given_up_ || clock_.now() >= deadline_) {
          throw LinkError(Failure::kRefused, survey_.peers[other].name, "does not take part in this survey");
        }
      } catch (const LinkError&) {
        give_up(LinkError(Failure::kCancelled, survey_.peers[other].name, "cannot be reached"));  // no use then
        throw;
      }
      auto waiting = clock_.sleep_for(kTryAgain);
      co_await std::move(waiting);
    }
  }

  // False if the other end closes the link instead of an answer.
  Task<bool> greet(net::Link& link) {
    try {
      Alarm alarm(clock_);
      alarm.set(deadline_, [&link] { link.close(LinkError(Failure::kLate, "", "does not answer")); });
      const auto channel = link.open(kGreeting);
      auto sending = channel->send({.tag = survey_.number});
      co_await std::move(sending);
      auto hearing = channel->receive();
      const net::Message answer = co_await std::move(hearing);
      co_return answer.label.tag == survey_.number;
    } catch (const LinkError&) {
      co_return false;
    }
  }

  bool all_lower_are_here() const {
    for (std::size_t other = 0; other < rank_; ++other) {
      if (!meetings_[other].link) return false;
    }
    return true;
  }

  Task<> accept_lower() {
    TaskGroup greetings(clock_.executor());
    std::optional<LinkError> failure;
    while (!all_lower_are_here() && !failure) {
      try {
        auto accepting = connector_.accept(deadline_);
        greetings.spawn(be_greeted(co_await std::move(accepting), survey_.number));
      } catch (const LinkError& error) {
        failure = error;
      }
    }
    auto joined = greetings.join();
    co_await std::move(joined);
    if (!failure) failure.emplace(Failure::kClosed, "", "has come, and gone again");
    for (std::size_t other = 0; other < rank_; ++other) {
      if (meetings_[other].link) continue;
      throw LinkError(failure->failure(), survey_.peers[other].name, std::string(failure->text()));
    }
  }

  // Those who speak of another survey are refused, and will try again.
  Task<> be_greeted(net::Connection connection, std::uint32_t number) {
    net::Link& link = *connection.meeting.link;
    const std::size_t other = rank_of(survey_.peers, connection.meeting.other.key);
    try {
      Alarm alarm(clock_);
      alarm.set(deadline_, [&link] { link.close(LinkError(Failure::kLate, "", "says nothing")); });
      const auto channel = link.open(kGreeting);
      auto hearing = channel->receive();
      const net::Message greeting = co_await std::move(hearing);
      const bool has_place = number == kLate ? expected_.contains(other) : other < rank_ && !meetings_[other].link;
      if (!has_place || greeting.label.tag != number || given_up_) {
        link.close(LinkError(Failure::kRefused, "", "is not expected here"));
        co_return;
      }
      meetings_[other] = std::move(connection.meeting);
      update();
      auto answering = channel->send({.tag = number});
      co_await std::move(answering);
      if (number == kLate) {
        expected_.erase(other);
        if (expected_.empty()) connector_.stop_accepting();
      } else if (all_lower_are_here()) {
        connector_.stop_accepting();
      }
    } catch (const LinkError&) {
      // It has gone again.
      if (other < meetings_.size() && meetings_[other].link.get() == &link) {
        before_.push_back(std::exchange(meetings_[other], {}));
        update();
      }
    }
  }

  Clock& clock_;
  net::Fingerprint own_;
  Duration patience_;
  wire::Survey survey_;
  bool given_up_ = false;
  Time deadline_{};
  std::size_t rank_ = 0;
  std::vector<net::Meeting> meetings_;  // by rank
  std::vector<std::uint32_t> came_;     // by rank: the generation in which whoever is there came
  std::vector<net::Meeting> before_;    // with those who were lost
  std::vector<net::Link*> links_;       // by rank
  std::set<std::size_t> expected_;      // ranks of those who have come later
  bool accepts_latecomers_ = false;
  std::shared_ptr<Missed> missed_;
  net::Connector connector_;
};

// A link to the coordinator, and what goes over it.
struct Session {
  Session(Executor executor, net::Meeting meeting, const Aside& aside)
      : link(std::move(meeting.link)), talk(*link), files(executor, *link, Files::End::kPeer, aside) {}

  std::shared_ptr<net::Link> link;
  Talk talk;
  Files files;
};

// What a peer's life has in common with the loop that listens to the coordinator.
struct Life {
  Life(Clock& clock_, net::Host& host_, const PeerOptions& options_, net::Meeting meeting)
      : clock(clock_), host(host_), options(options_), coordinator(meeting.other.name), background(clock.executor()) {
    begin(std::move(meeting));
  }

  void begin(net::Meeting meeting) {
    session = std::make_shared<Session>(clock.executor(), std::move(meeting), options.aside);
  }

  // Says it now, or when the coordinator is there again, if it does not know it then. What else there is to say then is
  // for the work to know.
  void say(const wire::SwarmMessage& message) {
    if (step_of(message)) {
      recent.push_back(message);
      if (recent.size() > kMostRecent) {
        recent.pop_front();
        ++forgotten;
      }
    }
    if (std::holds_alternative<wire::Ended>(message) || std::holds_alternative<wire::Failed>(message)) last = message;
    if (!is_away) session->talk.say(message);
  }

  // Of a report of a step, or of an evaluation after it.
  static std::optional<std::uint64_t> step_of(const wire::SwarmMessage& message) {
    if (const auto* report = std::get_if<wire::StepReport>(&message)) return report->step;
    if (const auto* evaluated = std::get_if<wire::Evaluated>(&message)) return evaluated->step;
    return std::nullopt;
  }

  // What came after a step that the coordinator knows, until there is nothing left; not faster than it is heard.
  Task<> say_again(std::uint64_t known) {
    constexpr std::size_t kAtOnce = 1000;
    constexpr Duration kLookAgain = std::chrono::milliseconds(1);
    for (std::uint64_t next = forgotten; next < forgotten + recent.size(); ++next) {
      next = std::max(next, forgotten);
      const wire::SwarmMessage& message = recent[next - forgotten];
      const bool is_report = std::holds_alternative<wire::StepReport>(message);
      if (is_report ? *step_of(message) <= known : *step_of(message) < known) continue;
      session->talk.say(message);
      while (session->talk.unheard() > kAtOnce && !session->link->has_ended()) {
        auto waiting = clock.sleep_for(kLookAgain);
        co_await std::move(waiting);
      }
    }
  }

  // This peer's cluster goes back to a step: what was said of later ones is not true any more.
  void forget_after(std::uint64_t step) {
    std::erase_if(recent, [&](const wire::SwarmMessage& message) { return *step_of(message) > step; });
  }

  static constexpr std::size_t kMostRecent = 1 << 16;

  Clock& clock;
  net::Host& host;
  const PeerOptions& options;
  std::shared_ptr<Session> session;
  std::string coordinator;  // its name
  TaskGroup background;     // what goes on besides
  wire::Plan plan{};        // by which the work goes on
  std::deque<wire::SwarmMessage> recent{};
  std::uint64_t forgotten = 0;                               // that came before those
  std::set<std::pair<std::size_t, std::uint32_t>> missed{};  // ranks of whom that was said, and when they came
  std::optional<wire::SwarmMessage> last{};                  // what is said at the end
  bool is_admitted = false, is_late = false, has_begun = false, has_failed = false;
  bool moves = false;                           // there is to be another plan, for which it joins again
  bool is_away = false;                         // the coordinator
  bool over = false;                            // the work has ended
  std::optional<LinkError> coordinator_lost{};  // before that
  std::optional<Displaced> displaced{};
};

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
      life.session->talk.say(wire::Returned{.generation = life.plan.generation});
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
    if (is_displaced && life->moves && !life->has_failed)
      life->displaced.emplace(end.failure(), end.peer(), end.text());
    if (life->over && (is_displaced || !may_return) && !life->has_failed) continue;  // it has let this one go
    if (is_displaced) life->displaced.emplace(end.failure(), end.peer(), end.text());
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
      auto connecting = links.connect_late(plan);
      co_await std::move(connecting);
      co_return plan;
    }
    const auto same = [](const wire::PlannedPeer& peer, const wire::Contact& contact) {
      return peer.contact == contact;
    };
    if (!std::ranges::equal(plan.peers, links.peers(), same)) throw wire::WireError("a plan for others");
    co_return plan;
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
  life->say(wire::Introduction{
      .contact = own, .memory = options.memory, .host = options.computer, .stands_in = options.stands_in});
  auto assigning = life->session->talk.hear();
  const auto assignment = expect<wire::Assignment>(co_await std::move(assigning), life->coordinator);
  life->is_admitted = true;

  std::exception_ptr failure;
  bool is_links_fault = false;
  wire::Failed failed;
  try {
    auto preparing = work.prepare(assignment, life->session->files);
    const wire::Ready ready = co_await std::move(preparing);
    life->say(ready);
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
    life->say(wire::Linked{.generation = plan.generation});
  }
  if (!failure) {
    std::exception_ptr trouble;
    try {
      auto beginning = hear_begin(*life, links);
      co_await std::move(beginning);
    } catch (const Error&) {
      trouble = std::current_exception();
    }
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
  if (life->displaced && (!failure || is_links_fault)) throw Displaced(*life->displaced);
  if (life->coordinator_lost) throw LinkError(*life->coordinator_lost);
  if (failure) std::rethrow_exception(failure);
}

}  // namespace

Task<> take_part(Clock& clock, net::Host& host, PeerOptions options, Work& work) {
  auto dialling = host.dial(options.ticket);
  const auto life = std::make_shared<Life>(clock, host, options, co_await std::move(dialling));
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
    throw Displaced(error.failure(), error.peer(), error.text());
  }
}

}  // namespace rookery::swarm
