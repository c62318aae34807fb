#pragma once

#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/signal.h"
#include "base/task.h"
#include "net/connector.h"
#include "net/error.h"
#include "net/host.h"
#include "swarm/peer.h"
#include "wire/swarm_message.h"

namespace rookery::swarm::internal {

// The links to all other peers of a swarm. Of two peers the one of lower rank connects; those that cannot dial each
// other talk through the coordinator. When somebody has gone and another has come, there is another survey, and there
// are new links: the two ends of one agree on the survey that it is for.
//
// Whoever comes when the run has begun connects to all who are there.
class Links {
 public:
  Links(Clock& clock, net::Host& host, const PeerOptions& options, std::shared_ptr<net::Link> coordinator);

  // Throws LinkError with the name of the peer to which there is no link.
  Task<> connect(wire::Survey survey);

  // Whoever comes later: what follows is by this plan of a run that has begun.
  void set_out(const wire::Plan& plan);

  // Then: to those who are there, if only to wait for others. Nobody waits for those who have no place any more by a
  // later plan. Throws LinkError with the name of the peer to which there is no link.
  Task<> connect_late();

  // Those who have come to a place since the plan before connect to this one; in the background, until it is too late.
  void expect(const wire::Plan& plan, TaskGroup& background);

  void expect_nobody();

  // Those who have no place any more may be silent, and this end may not have noticed yet: nobody waits for them.
  void part_with_lost(const wire::Plan& plan);

  // From now on: whenever a link to whoever has a place has ended.
  using Missed = std::function<void()>;
  void tell_who_is_missed(Missed missed);

  // Calls go through the coordinator by this link.
  void use_relay(std::shared_ptr<net::Link> coordinator) { connector_->use_relay(std::move(coordinator)); }

  void close(const net::LinkError& reason);

  // The same, and whoever is still connecting waits for nobody any more.
  void give_up(const net::LinkError& reason);

  std::size_t rank() const { return rank_; }
  const std::vector<wire::Contact>& peers() const { return survey_.peers; }
  const std::vector<net::Link*>& links() const { return links_; }

 private:
  static constexpr std::uint32_t kLate = std::numeric_limits<std::uint32_t>::max();  // instead of a survey's number

  // What those who dial for connect_late() share. Dialling cannot be given up, and may last longer than this.
  struct Dialling {
    Dialling(Clock& clock_, std::weak_ptr<net::Connector> connector_, Time deadline_)
        : clock(clock_), connector(std::move(connector_)), deadline(deadline_) {}

    Clock& clock;
    std::weak_ptr<net::Connector> connector;
    Time deadline;
    std::set<std::size_t> missing{};  // ranks to which there is no link yet
    std::map<std::size_t, net::Meeting> made{};
    std::optional<net::LinkError> failure{};
    Signal changed{};
  };

  void begin(wire::Survey survey);
  void update();
  void watch(std::size_t rank);
  void check(const net::Guest& guest) const;
  bool all_lower_are_here() const;

  // One after another, as long as some are expected.
  Task<> accept_latecomers();
  Task<> accept_lower();

  // Those who speak of another survey are refused, and will try again.
  Task<> be_greeted(net::Connection connection, std::uint32_t number);

  // The other may not have heard of this survey yet, and refuse; then it is tried again.
  Task<> connect_to(std::size_t other);

  // The same for whoever comes later, who may not know yet that the other has gone.
  static Task<> dial_late(std::shared_ptr<Dialling> dialling, std::size_t other, wire::Contact contact);
  static Task<bool> dial_once(std::shared_ptr<Dialling> dialling, std::size_t other, wire::Contact contact);

  // False if the other end closes the link instead of an answer.
  static Task<bool> greet(Clock& clock, net::Link& link, std::uint32_t number, Time deadline);

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
  std::shared_ptr<Dialling> dialling_{};
  std::shared_ptr<net::Connector> connector_;
};

}  // namespace rookery::swarm::internal
