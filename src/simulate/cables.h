#pragma once

#include <map>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "net/line.h"
#include "net/link.h"
#include "plan/swarm.h"

namespace rookery::simulate {

struct CablesOptions {
  double scale = 1;                              // what each byte of a message stands for
  Duration heartbeat = std::chrono::seconds(1);  // how often links speak at least
  std::uint64_t seed = 1;
};

// The links between peers of a described swarm, in the virtual world: each as fast as the swarm says, and all that a
// peer sends no faster than its network card. Confined to the clock's executor.
class Cables {
 public:
  // The swarm outlives this.
  Cables(Clock& clock, const plan::Swarm& swarm, CablesOptions options);

  // The end of a link that `from` has, to another peer. Made when somebody asks for the first time.
  net::Link* link(std::size_t from, std::size_t to);

  // A peer is gone: its links end, at both ends. Whoever comes in its place has links of its own.
  void cut(std::size_t peer);

  // A peer is frozen: nothing that it sends, or is sent, leaves before.
  void hold(std::size_t peer, Time until);

  // What a peer has sent and received for training: evaluations and the like apart. By the scale.
  net::Traffic traffic(std::size_t peer) const;

 private:
  std::shared_ptr<net::Line> line(std::size_t from, std::size_t to);
  net::Traffic traffic_of(const net::Link& link) const;

  Clock& clock_;
  const plan::Swarm& swarm_;
  CablesOptions options_;
  std::vector<std::shared_ptr<net::Card>> cards_;                         // of each peer; one for those of a computer
  std::vector<std::map<std::size_t, std::unique_ptr<net::Link>>> ends_;   // of each peer, by the other,
  std::vector<std::map<std::size_t, std::shared_ptr<net::Line>>> lines_;  // and the ways there
  std::vector<net::Traffic> ended_;                                       // what links have carried that are no more
};

}  // namespace rookery::simulate
