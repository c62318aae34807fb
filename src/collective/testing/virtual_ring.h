#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/virtual_world.h"
#include "collective/ring_all_reduce.h"
#include "collective/testing/run_all.h"
#include "net/link.h"
#include "net/memory/memory_pipe.h"

namespace rookery::collective::testing {

// Peers "p0", "p1", … in a ring of links in the virtual world, and what can go wrong with them.
class VirtualRing {
 public:
  struct Options {
    net::LineOptions line{};
    std::uint64_t seed = 1;
    Duration heartbeat = std::chrono::milliseconds(100);
    Duration silence = std::chrono::seconds(1);
  };

  VirtualRing(std::size_t peers, Options options);

  std::size_t size() const { return size_; }
  VirtualWorld& world() { return world_; }
  Ring ring(std::size_t rank) const;

  // Runs `task(rank)` on every peer to its end; an entry for each: nothing if it went well.
  using Outcome = testing::Outcome;
  std::vector<Outcome> run(const std::function<Task<>(std::size_t)>& task, Time limit);

  // Faults. A peer that is killed closes its connections; one that is frozen says nothing any more.
  void kill(std::size_t peer);
  void freeze(std::size_t peer, bool frozen = true);
  void cut(std::size_t from, std::size_t to, bool is_cut = true);  // one way, between neighbours

 private:
  struct Connection {
    std::size_t a = 0, b = 0;           // ranks; a sends to b along the ring
    net::MemoryPipe* pipe_a = nullptr;  // what a sends
    net::MemoryPipe* pipe_b = nullptr;
    std::unique_ptr<net::Link> link_a{}, link_b{};
  };

  static void cut_from(const Connection& c, std::size_t peer, bool is_cut);

  std::size_t size_;
  VirtualWorld world_;
  std::vector<Connection> connections_;  // i joins i and i + 1; a ring of two has one
};

}  // namespace rookery::collective::testing
