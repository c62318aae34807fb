#include "plan/sweep.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace rookery::plan {
namespace {

constexpr double kLeastFactor = 1e-4, kMostFactor = 1e5;

bool all_reduce_is_as_good(const Job& job, const Swarm& swarm, const Candidate& candidate,
                           const std::vector<MethodOptions>& methods) {
  double plain = 0, best = 0;
  for (const MethodOptions& method : methods) {
    const Option option = with_method(job, swarm, candidate, method);
    best = std::max(best, option.value());
    if (method.method == Method::kAllReduce) plain = std::max(plain, option.value() * preference(option.candidate));
  }
  return plain >= best;
}

}  // namespace

Swarm with_links(Swarm swarm, double factor) {
  for (Peer& peer : swarm.peers) {
    peer.uplink *= factor;
    peer.downlink *= factor;
  }
  for (auto& [ends, link] : swarm.links) link.bandwidth *= factor;
  return swarm;
}

Swarm with_peers(const Swarm& swarm, std::size_t peers) {
  const std::size_t known = swarm.peers.size();
  Swarm result{.cores = swarm.cores};
  for (std::size_t i = 0; i < peers; ++i) result.peers.push_back(swarm.peers[i % known]);
  if (swarm.links.empty() || known < 2) return result;
  for (std::size_t from = 0; from < peers; ++from) {
    for (std::size_t to = 0; to < peers; ++to) {
      if (from == to) continue;
      const std::size_t a = from % known, b = to % known;
      result.links[{from, to}] = swarm.link(a, a == b ? (a + 1) % known : b);
    }
  }
  return result;
}

double slowest_link(const Job& job, const Swarm& swarm, const Candidate& candidate) {
  double slowest = std::numeric_limits<double>::infinity();
  const std::size_t clusters = candidate.clusters.size();
  if (clusters < 2) return slowest;
  std::vector<Cut> cuts;
  for (const Partition& partition : candidate.partitions) cuts.push_back(partition.cut);
  for (const Segment& segment : segments(cuts, job.model.size())) {
    for (std::size_t c = 0; c < clusters; ++c) {
      const std::size_t next = (c + 1) % clusters;
      const std::size_t from = candidate.clusters[c][segment.stages[c]];
      const std::size_t to = candidate.clusters[next][segment.stages[next]];
      slowest = std::min(slowest, swarm.link(from, to).bandwidth);
    }
  }
  return slowest;
}

Option with_method(const Job& job, const Swarm& swarm, Candidate candidate, const MethodOptions& method) {
  candidate.method = method;
  Option option{.candidate = std::move(candidate), .prediction = {}};
  option.prediction = predict(job, swarm, option.candidate);
  option.worth = worth(option.candidate, job.goal);
  return option;
}

double all_reduce_from(const Job& job, const Swarm& swarm, const Candidate& candidate,
                       const std::vector<MethodOptions>& methods) {
  const auto is_as_good = [&](double factor) {
    return all_reduce_is_as_good(job, with_links(swarm, factor), candidate, methods);
  };
  double low = kLeastFactor, high = kMostFactor;
  if (is_as_good(low)) return 0;
  if (!is_as_good(high)) return std::numeric_limits<double>::infinity();
  while (high / low > 1.02) {
    const double middle = std::sqrt(low * high);
    (is_as_good(middle) ? high : low) = middle;
  }
  return high;
}

}  // namespace rookery::plan
