#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/task.h"
#include "net/host.h"
#include "swarm/files.h"
#include "swarm/peer.h"
#include "swarm/talk.h"
#include "wire/swarm_message.h"

namespace rookery::swarm::internal {

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
  Life(Clock& clock_, net::Host& host_, const PeerOptions& options_, net::Meeting meeting);

  // Goes on with another link.
  void begin(net::Meeting meeting);

  // Says it now, or when the coordinator is there again, if it does not know it then. What else there is to say then is
  // for the work to know.
  void say(const wire::SwarmMessage& message);

  // What came after a step that the coordinator knows, until there is nothing left; not faster than it is heard.
  Task<> say_again(std::uint64_t known);

  // Whether it has done a step.
  bool has_reported() const { return forgotten > 0 || !recent.empty(); }

  // This peer's cluster goes back to a step: what was said of later ones is not true any more.
  void forget_after(std::uint64_t step);

  Clock& clock;
  net::Host& host;
  const PeerOptions& options;
  std::shared_ptr<Session> session;
  std::string coordinator;                                   // its name
  TaskGroup background;                                      // what goes on besides
  wire::Introduction introduction{};                         // what it has said of itself,
  wire::Ready ready{};                                       // and of its computer
  wire::Plan plan{};                                         // by which the work goes on
  std::deque<wire::SwarmMessage> recent{};                   // reports of steps and evaluations
  std::uint64_t forgotten = 0;                               // that came before those
  std::set<std::pair<std::size_t, std::uint32_t>> missed{};  // ranks of whom that was said, and when they came
  std::optional<wire::SwarmMessage> last{};                  // what is said at the end
  bool is_admitted = false, is_late = false, has_begun = false, has_failed = false;
  bool moves = false;                                // there is to be another plan, for which it joins again
  bool is_away = false;                              // the coordinator
  bool over = false;                                 // the work has ended
  std::optional<net::LinkError> coordinator_lost{};  // before that
  std::optional<net::LinkError> displaced{};
};

}  // namespace rookery::swarm::internal
