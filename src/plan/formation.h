#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/runtime.h"

namespace rookery::plan {

// Which peers hold a copy of the model together, in the order of stages. Every peer is in one of them.
using Formation = std::vector<std::vector<std::size_t>>;

// What forming clusters has to take into account.
struct Forming {
  const Job& job;
  const Swarm& swarm;
  ScheduleOptions schedule{};
  Keeping keeping{};
};

// Seconds that a cluster with these peers, in this order, takes for a step; infinite if the model does not fit.
double step_of(const Forming& forming, std::span<const std::size_t> peers);

// Clusters such that the slowest is as fast as can be: all wait for it. Peers are dealt out by speed, then moved and
// swapped for as long as that helps the slowest, each try judged by the exact partition. Deterministic.
//
// Empty if there is no way that the model fits. Requires: 0 < clusters <= peers
Formation form(const Forming& forming, std::size_t clusters);

// Clusters of as many peers each, or one more, in which fast peers are together with slow ones. Where gradients are
// stale the more, the longer a pipeline is, that may be better than what is fastest. Empty if the model does not fit
// so. Requires: 0 < clusters <= peers
Formation deal_evenly(const Forming& forming, std::size_t clusters);

// Puts clusters into the order of their rings, so that of all links from one to the next the slowest is fast, and then
// all of them together: each is followed by the one to which its link is fastest, then, of up to 64, parts of the order
// are turned round for as long as that helps. `cuts`: of each cluster.
std::vector<std::size_t> ring_order(const Swarm& swarm, const Formation& clusters, std::span<const Cut> cuts,
                                    std::size_t layers);

}  // namespace rookery::plan
