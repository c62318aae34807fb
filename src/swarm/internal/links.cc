#include "swarm/internal/links.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

namespace rookery::swarm::internal {
namespace {

using net::Failure;
using net::LinkError;

constexpr net::ChannelId kGreeting{.purpose = 0x0310};
constexpr Duration kTryAgain = std::chrono::milliseconds(100);

std::size_t rank_of(const std::vector<wire::Contact>& peers, const net::Fingerprint& key) {
  const auto same = [&](const wire::Contact& peer) { return peer.fingerprint == key.bytes(); };
  return static_cast<std::size_t>(std::ranges::find_if(peers, same) - peers.begin());
}

wire::Survey survey_of(const wire::Plan& plan, std::uint32_t number) {
  wire::Survey survey{.number = number};
  for (const wire::PlannedPeer& peer : plan.peers) survey.peers.push_back(peer.contact);
  return survey;
}

}  // namespace

Links::Links(Clock& clock, net::Host& host, const PeerOptions& options, std::shared_ptr<net::Link> coordinator)
    : clock_(clock),
      own_(host.identity().fingerprint()),
      patience_(options.links),
      connector_(std::make_shared<net::Connector>(clock, host, options.addresses,
                                                  [this](const net::Guest& guest) { check(guest); })) {
  connector_->use_relay(std::move(coordinator));
}

void Links::begin(wire::Survey survey) {
  meetings_.clear();
  survey_ = std::move(survey);
  given_up_ = false;
  rank_ = rank_of(survey_.peers, own_);
  if (rank_ == survey_.peers.size()) throw wire::WireError("a swarm without this peer");
  meetings_.resize(survey_.peers.size());
  came_.assign(survey_.peers.size(), 0);
  deadline_ = clock_.now() + patience_;
}

Task<> Links::connect(wire::Survey survey) {
  begin(std::move(survey));
  TaskGroup group(clock_.executor());
  group.spawn(accept_lower());
  for (std::size_t other = rank_ + 1; other < meetings_.size(); ++other) group.spawn(connect_to(other));
  auto joined = group.join();
  co_await std::move(joined);
  update();
}

void Links::set_out(const wire::Plan& plan) {
  begin(survey_of(plan, kLate));
  dialling_ = std::make_shared<Dialling>(clock_, connector_, deadline_);
  for (std::size_t other = 0; other < plan.peers.size(); ++other) {
    came_[other] = plan.peers[other].came;
    if (!plan.peers[other].empty && other != rank_) dialling_->missing.insert(other);
  }
}

Task<> Links::connect_late() {
  const std::shared_ptr<Dialling> dialling = dialling_;
  for (const std::size_t other : dialling->missing) {
    boost::asio::co_spawn(clock_.executor(), dial_late(dialling, other, survey_.peers[other]), boost::asio::detached);
  }
  bool in_time = true;
  while (!dialling->missing.empty() && !dialling->failure && !given_up_ && in_time) {
    auto waiting = dialling->changed.wait_until(clock_, deadline_);
    in_time = co_await std::move(waiting);
  }
  for (auto& [other, meeting] : dialling->made) meetings_[other] = std::move(meeting);
  update();
  const std::set<std::size_t> missing = std::exchange(dialling->missing, {});  // whoever still dials them stops
  if (dialling->failure) throw LinkError(*dialling->failure);
  if (given_up_) throw LinkError(Failure::kCancelled, "", "does not link up any more");
  if (!missing.empty()) throw LinkError(Failure::kLate, survey_.peers[*missing.begin()].name, "does not answer");
}

Task<> Links::dial_late(std::shared_ptr<Dialling> dialling, std::size_t other, wire::Contact contact) {
  constexpr Duration kDoubt = std::chrono::seconds(2);  // whoever cannot be reached may have no place any more, soon
  std::optional<Time> in_doubt_until;
  while (dialling->missing.contains(other)) {
    std::optional<LinkError> failure;
    try {
      auto dials = dial_once(dialling, other, contact);
      if (co_await std::move(dials)) co_return;
      if (dialling->clock.now() >= dialling->deadline) {
        failure.emplace(Failure::kRefused, contact.name, "does not expect this peer");
      }
    } catch (const LinkError& error) {
      failure.emplace(error.failure(), contact.name, error.text());
    }
    const Time now = dialling->clock.now();
    if (failure && !in_doubt_until) in_doubt_until = now + kDoubt;
    if (failure && now >= *in_doubt_until && dialling->missing.contains(other)) {
      dialling->failure = failure;
      co_return dialling->changed.notify();
    }
    auto waiting = dialling->clock.sleep_for(kTryAgain);
    co_await std::move(waiting);
  }
}

// False if the other does not expect this peer, or not yet.
Task<bool> Links::dial_once(std::shared_ptr<Dialling> dialling, std::size_t other, wire::Contact contact) {
  std::shared_ptr<net::Connector> connector = dialling->connector.lock();
  if (!connector) co_return true;  // nobody wants it any more
  auto connecting = connector->connect(std::move(contact));
  connector.reset();
  net::Connection connection = co_await std::move(connecting);
  const LinkError unwanted(Failure::kCancelled, "", "goes on without this link");
  if (!dialling->missing.contains(other)) {  // nor is the other to take it for one that is
    connection.meeting.link->close(unwanted);
    co_return true;
  }
  auto greeting = greet(dialling->clock, *connection.meeting.link, kLate, dialling->deadline);
  const bool is_welcome = co_await std::move(greeting);
  if (!is_welcome) co_return false;
  if (dialling->missing.erase(other) == 0) {
    connection.meeting.link->close(unwanted);
    co_return true;
  }
  dialling->made.emplace(other, std::move(connection.meeting));
  dialling->changed.notify();
  co_return true;
}

void Links::expect(const wire::Plan& plan, TaskGroup& background) {
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

void Links::expect_nobody() {
  expected_.clear();
  deadline_ = clock_.now();
  connector_->stop_accepting();
}

void Links::part_with_lost(const wire::Plan& plan) {
  for (std::size_t other = 0; other < plan.peers.size(); ++other) {
    net::Link* link = meetings_[other].link.get();
    if (!plan.peers[other].empty) continue;
    if (dialling_ && dialling_->missing.erase(other) > 0) dialling_->changed.notify();
    if (dialling_ && dialling_->made.contains(other) && link == nullptr) link = dialling_->made[other].link.get();
    if (link == nullptr || link->has_ended()) continue;
    link->close(LinkError(Failure::kLate, "", "the others go on without it"));
  }
}

void Links::close(const LinkError& reason) {
  for (const net::Meeting& meeting : meetings_) {
    if (meeting.link) meeting.link->close(reason);
  }
}

void Links::give_up(const LinkError& reason) {
  given_up_ = true;
  connector_->stop_accepting();
  if (dialling_) dialling_->changed.notify();
  close(reason);
}

void Links::tell_who_is_missed(Missed missed) {
  missed_ = std::make_shared<Missed>(std::move(missed));
  for (std::size_t rank = 0; rank < links_.size(); ++rank) watch(rank);
}

// Links to those who were lost are kept, so no two have one address.
void Links::watch(std::size_t rank) {
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

void Links::update() {
  const std::vector<net::Link*> before = std::exchange(links_, {});
  for (const net::Meeting& meeting : meetings_) links_.push_back(meeting.link.get());
  for (std::size_t rank = 0; rank < links_.size(); ++rank) {
    if (rank >= before.size() || links_[rank] != before[rank]) watch(rank);
  }
}

void Links::check(const net::Guest& guest) const {
  const std::size_t rank = rank_of(survey_.peers, guest.key);
  if (rank >= rank_ && !expected_.contains(rank)) throw LinkError(Failure::kRefused, "", "is not expected here");
}

bool Links::all_lower_are_here() const {
  for (std::size_t other = 0; other < rank_; ++other) {
    if (!meetings_[other].link) return false;
  }
  return true;
}

Task<> Links::connect_to(std::size_t other) {
  for (;;) {
    try {
      auto connecting = connector_->connect(survey_.peers[other]);
      net::Connection connection = co_await std::move(connecting);
      auto greeting = greet(clock_, *connection.meeting.link, survey_.number, deadline_);
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

Task<bool> Links::greet(Clock& clock, net::Link& link, std::uint32_t number, Time deadline) {
  try {
    Alarm alarm(clock);
    alarm.set(deadline, [&link] { link.close(LinkError(Failure::kLate, "", "does not answer")); });
    const auto channel = link.open(kGreeting);
    auto sending = channel->send({.tag = number});
    co_await std::move(sending);
    auto hearing = channel->receive();
    const net::Message answer = co_await std::move(hearing);
    co_return answer.label.tag == number;
  } catch (const LinkError&) {
    co_return false;
  }
}

Task<> Links::accept_lower() {
  TaskGroup greetings(clock_.executor());
  std::optional<LinkError> failure;
  while (!all_lower_are_here() && !failure) {
    try {
      auto accepting = connector_->accept(deadline_);
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

Task<> Links::accept_latecomers() {
  TaskGroup greetings(clock_.executor());
  while (!expected_.empty() && clock_.now() < deadline_) {
    bool has_failed = false;
    try {
      auto accepting = connector_->accept(deadline_);
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

Task<> Links::be_greeted(net::Connection connection, std::uint32_t number) {
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
      if (expected_.empty()) connector_->stop_accepting();
    } else if (all_lower_are_here()) {
      connector_->stop_accepting();
    }
  } catch (const LinkError&) {
    // It has gone again.
    if (other < meetings_.size() && meetings_[other].link.get() == &link) {
      before_.push_back(std::exchange(meetings_[other], {}));
      update();
    }
  }
}

}  // namespace rookery::swarm::internal
