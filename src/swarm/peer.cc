#include "swarm/peer.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "base/error.h"
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

std::size_t rank_of(const wire::Plan& plan, const net::Fingerprint& key) {
  const auto same = [&](const wire::PlannedPeer& peer) { return peer.contact.fingerprint == key.bytes(); };
  return static_cast<std::size_t>(std::ranges::find_if(plan.peers, same) - plan.peers.begin());
}

// The links to all other peers of a plan. Of two peers the one of lower rank connects.
class Links {
 public:
  // Peers that cannot dial each other talk through the coordinator.
  Links(Clock& clock, net::Host& host, const PeerOptions& options, const wire::Plan& plan,
        std::shared_ptr<net::Link> coordinator)
      : clock_(clock),
        host_(host),
        plan_(plan),
        rank_(rank_of(plan, host.identity().fingerprint())),
        connector_(clock, host, options.addresses, [this](const net::Guest& guest) { check(guest); }),
        meetings_(plan.peers.size()),
        alarm_(clock) {
    connector_.use_relay(std::move(coordinator));
    if (rank_ == plan.peers.size()) throw wire::WireError("a plan without this peer");
    alarm_.set(clock.now() + options.links, [&host] { host.close(); });
  }

  Task<> connect() {
    TaskGroup group(clock_.executor());
    group.spawn(guarded(accept_lower()));
    for (std::size_t other = rank_ + 1; other < plan_.peers.size(); ++other) group.spawn(guarded(connect_to(other)));
    auto joined = group.join();
    co_await std::move(joined);
    alarm_.cancel();
  }

  std::size_t rank() const { return rank_; }

  std::vector<net::Link*> links() const {
    std::vector<net::Link*> links;
    for (const net::Meeting& meeting : meetings_) links.push_back(meeting.link.get());
    return links;
  }

  void close(const LinkError& reason) {
    for (const net::Meeting& meeting : meetings_) {
      if (meeting.link) meeting.link->close(reason);
    }
  }

 private:
  void check(const net::Guest& guest) const {
    if (rank_of(plan_, guest.key) >= rank_) throw LinkError(Failure::kRefused, "", "is not expected here");
  }

  // If one link cannot be made, the others are of no use.
  Task<> guarded(Task<> task) {
    try {
      co_await std::move(task);
    } catch (const LinkError&) {
      host_.close();
      throw;
    }
  }

  Task<> connect_to(std::size_t other) {
    auto connecting = connector_.connect(plan_.peers[other].contact);
    net::Connection connection = co_await std::move(connecting);
    meetings_[other] = std::move(connection.meeting);
  }

  Task<> accept_lower() {
    for (std::size_t missing = rank_; missing > 0;) {
      auto accepting = connector_.accept();
      net::Connection connection = co_await std::move(accepting);
      const std::size_t other = rank_of(plan_, connection.meeting.other.key);
      if (other >= rank_ || (meetings_[other].link && !meetings_[other].link->has_ended())) {
        connection.meeting.link->close(LinkError(Failure::kRefused, "", "is not expected here"));
        continue;
      }
      if (!meetings_[other].link) --missing;  // else it has tried again
      meetings_[other] = std::move(connection.meeting);
    }
  }

  Clock& clock_;
  net::Host& host_;
  const wire::Plan& plan_;
  std::size_t rank_;
  net::Connector connector_;
  std::vector<net::Meeting> meetings_;  // by rank
  Alarm alarm_;
};

// What a peer's life has in common with the loop that listens to the coordinator.
struct Life {
  Life(Executor executor, net::Meeting meeting, const Aside& aside)
      : link(std::move(meeting.link)),
        coordinator(meeting.other.name),
        talk(*link),
        files(executor, *link, Files::End::kPeer, aside) {}

  std::shared_ptr<net::Link> link;  // to the coordinator
  std::string coordinator;          // its name
  Talk talk;
  Files files;
  bool over = false;                          // the work has ended
  std::optional<LinkError> coordinator_lost;  // before that
};

void obey(const wire::SwarmMessage& message, Life& life, Work& work) {
  if (std::holds_alternative<wire::Stop>(message)) {
    life.talk.say(wire::Halted{.step = work.halt()});
  } else if (const auto* end = std::get_if<wire::EndAt>(&message)) {
    work.end_at(end->step);
  } else if (const auto* kept = std::get_if<wire::Kept>(&message)) {
    work.kept(kept->step);
  } else {
    throw wire::WireError("a message of the swarm out of turn");
  }
}

// While the work goes on: what the coordinator says, or its end.
Task<> listen(std::shared_ptr<Life> life, Work* work) {
  std::optional<LinkError> end;
  while (!end) {
    try {
      auto hearing = life->talk.hear();
      const wire::SwarmMessage message = co_await std::move(hearing);
      if (!life->over) obey(message, *life, *work);
    } catch (const LinkError& error) {
      end = error;
    } catch (const wire::WireError& error) {
      end = LinkError(Failure::kProtocol, life->coordinator, error.what());
    }
  }
  if (life->over) co_return;
  life->coordinator_lost = *end;
  work->abandon();
}

}  // namespace

Task<> take_part(Clock& clock, net::Host& host, PeerOptions options, Work& work) {
  auto dialling = host.dial(options.ticket);
  const auto life = std::make_shared<Life>(clock.executor(), co_await std::move(dialling), options.aside);
  Talk& talk = life->talk;
  const wire::Contact own{.name = host.options().name,
                          .fingerprint = host.identity().fingerprint().bytes(),
                          .addresses = options.addresses};
  talk.say(wire::Introduction{.contact = own, .memory = options.memory, .host = options.computer});
  auto assigning = talk.hear();
  const auto assignment = expect<wire::Assignment>(co_await std::move(assigning), life->coordinator);

  std::exception_ptr failure;
  wire::Failed failed;
  try {
    auto preparing = work.prepare(assignment, life->files);
    const wire::Ready ready = co_await std::move(preparing);
    talk.say(ready);
  } catch (const std::exception& error) {
    failure = std::current_exception();
    failed.text = error.what();
  }
  wire::Plan plan;
  std::optional<Links> links;
  if (!failure) {
    auto planning = talk.hear();
    plan = expect<wire::Plan>(co_await std::move(planning), life->coordinator);
    links.emplace(clock, host, options, plan, life->link);
    try {
      auto connecting = links->connect();
      co_await std::move(connecting);
      talk.say(wire::Linked{.generation = plan.generation});
    } catch (const LinkError& error) {
      failure = std::current_exception();
      failed = {.culprit = error.peer(), .text = std::string(error.text())};
    }
  }
  if (!failure) {
    auto beginning = talk.hear();
    expect<wire::Begin>(co_await std::move(beginning), life->coordinator);
    TaskGroup listening(clock.executor());
    listening.spawn(listen(life, &work));
    try {
      auto training = work.train({.plan = plan, .rank = links->rank(), .links = links->links()},
                                 [life](const wire::SwarmMessage& message) { life->talk.say(message); });
      const wire::Ended ended = co_await std::move(training);
      talk.say(ended);
    } catch (const LinkError& error) {
      failure = std::current_exception();
      failed = {.culprit = error.peer(), .text = std::string(error.text())};
    } catch (const std::exception& error) {  // libraries throw their own
      failure = std::current_exception();
      failed.text = error.what();
    }
  }
  life->over = true;
  if (failure) {
    talk.say(failed);
    // The others learn who is to blame before they miss this one.
    if (links) links->close(LinkError(Failure::kCancelled, failed.culprit, failed.text));
  }
  auto leaving = life->link->ended();
  co_await std::move(leaving);
  if (life->coordinator_lost) throw LinkError(*life->coordinator_lost);
  if (failure) std::rethrow_exception(failure);
}

}  // namespace rookery::swarm
