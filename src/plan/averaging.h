#pragma once

#include <cstddef>
#include <vector>

#include "plan/swarm.h"

namespace rookery::plan {

// What is sent of a message before the other end has said that it is there.
constexpr double kUnaskedBytes = 64 * 1024;

// An average on its way: how long it keeps the links busy, and how long it takes if there is nothing else.
struct Transfer {
  double busy = 0, alone = 0, latency = 0;
};

// How the holders of a segment average: on one ring, or along the axes of a grid (grid.h). Peers of one computer do so
// among themselves first.
class Averaging {
 public:
  // `members`: peers of the swarm, in the order of their ranks. The swarm outlives this.
  // `group`: the most members of a ring.
  Averaging(const Swarm& swarm, std::vector<std::size_t> members, std::size_t group);

  // What so many bytes take. `company`: for each peer of the swarm, how many bytes it averages at the same time for
  // each of these, with other holders too; they share its card.
  Transfer transfer(double bytes, const std::vector<double>& company) const;

  // What a member sends for each byte that is averaged.
  double sent(std::size_t rank) const { return sent_[rank]; }

 private:
  struct Ring {
    std::size_t phase = 0;
    std::vector<std::size_t> peers{};
    double share = 1;    // of all values
    double sharing = 1;  // peers of a computer that do the same at that time
    bool stays = false;  // within a computer
  };

  Transfer on_ring(const Ring& ring, double bytes, const std::vector<double>& company) const;

  const Swarm& swarm_;
  std::size_t together_;     // peers that each computer has, if all have as many
  std::vector<Ring> rings_;  // by phase
  std::vector<double> sent_;
};

}  // namespace rookery::plan
