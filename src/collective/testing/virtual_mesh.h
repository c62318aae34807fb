#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "base/virtual_world.h"
#include "collective/testing/run_all.h"
#include "net/line.h"
#include "net/link.h"
#include "net/memory/memory_pipe.h"

namespace rookery::collective::testing {

// Peers "p0", "p1", … within a process, each with a link to every other.
class Mesh {
 public:
  Mesh(Clock& clock, std::size_t peers, net::LineOptions line = {}, std::uint64_t seed = 1);

  std::size_t size() const { return ends_.size(); }
  std::vector<net::Link*> links(std::size_t rank) const;  // by rank; nullptr for its own

  void kill(std::size_t peer);    // closes its connections
  void freeze(std::size_t peer);  // nothing comes from it any more, or gets to it

 private:
  struct End {
    net::MemoryPipe* pipe = nullptr;
    std::unique_ptr<net::Link> link;
  };

  // A link that has ended lets go of its pipe.
  static bool is_open(const End& end) { return end.link && !end.link->has_ended(); }

  std::vector<std::vector<End>> ends_;  // [from][to]
};

// The same in the virtual world.
class VirtualMesh {
 public:
  explicit VirtualMesh(std::size_t peers, net::LineOptions line = {}, std::uint64_t seed = 1)
      : mesh_(world_.clock(), peers, line, seed) {}

  VirtualWorld& world() { return world_; }
  std::vector<net::Link*> links(std::size_t rank) const { return mesh_.links(rank); }
  void kill(std::size_t peer) { mesh_.kill(peer); }
  void freeze(std::size_t peer) { mesh_.freeze(peer); }

  // Runs `task(rank)` on every peer to its end; an entry for each: nothing if it went well.
  using Outcome = testing::Outcome;
  std::vector<Outcome> run(const std::function<Task<>(std::size_t)>& task, Time limit) {
    return run_all(world_, mesh_.size(), task, limit);
  }

 private:
  VirtualWorld world_;
  Mesh mesh_;
};

}  // namespace rookery::collective::testing
