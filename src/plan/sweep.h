#pragma once

#include <vector>

#include "plan/planner.h"

namespace rookery::plan {

// What would be if links were faster or slower, or if there were more peers.

// The same peers with links that are `factor` times as fast.
Swarm with_links(Swarm swarm, double factor);

// So many peers: those that there are, again and again.
Swarm with_peers(const Swarm& swarm, std::size_t peers);

// Bytes/s of the slowest link over which copies agree; infinite if there is none.
double slowest_link(const Job& job, const Swarm& swarm, const Candidate& candidate);

// The same clusters with another method.
Option with_method(const Job& job, const Swarm& swarm, Candidate candidate, const MethodOptions& method);

// The factor of link speed from which on plain all-reduce is as good as the best of these methods, with these clusters.
// 0 if it is at any speed; infinite if it is at none, because latency is in the way.
double all_reduce_from(const Job& job, const Swarm& swarm, const Candidate& candidate,
                       const std::vector<MethodOptions>& methods);

}  // namespace rookery::plan
