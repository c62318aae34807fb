#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/virtual_world.h"
#include "net/line.h"
#include "net/link.h"
#include "net/memory/memory_pipe.h"

namespace rookery::sync::testing {

// Peers "p0", "p1", … in the virtual world, each with a link to every other.
class VirtualMesh {
 public:
  explicit VirtualMesh(std::size_t peers, net::LineOptions line = {}, std::uint64_t seed = 1);

  VirtualWorld& world() { return world_; }
  std::vector<net::Link*> links(std::size_t rank) const;  // by rank; nullptr for its own

  // Runs `task(rank)` on every peer to its end; an entry for each: nothing if it went well.
  using Outcome = std::optional<net::LinkError>;
  std::vector<Outcome> run(const std::function<Task<>(std::size_t)>& task, Time limit);

  void kill(std::size_t peer);  // closes its connections

 private:
  struct End {
    net::MemoryPipe* pipe = nullptr;
    std::unique_ptr<net::Link> link;
  };

  VirtualWorld world_;
  std::vector<std::vector<End>> ends_;  // [from][to]
};

}  // namespace rookery::sync::testing
