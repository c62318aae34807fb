#include "plan/formation.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "base/random.h"

namespace rookery::plan {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr std::size_t kMostTries = 4000;   // moves and swaps, in all
constexpr std::size_t kTriesInARow = 200;  // without any gain
constexpr std::uint64_t kSeed = 0x666f726d;

// How fast a peer is with the whole model.
double speed_of(const Forming& forming, std::size_t peer) {
  const std::vector<std::size_t> alone = {peer};
  const std::vector<Worker> worker = workers_of(forming.swarm, alone, forming.schedule.micro_batches);
  const ActionTimes times =
      action_times(forming.job.model, worker[0], {0, forming.job.model.size()}, forming.keeping.versions);
  return 1 / std::max(1e-12, times.forward + times.backward);
}

std::vector<double> speeds_of(const Forming& forming) {
  std::vector<double> speeds;
  for (std::size_t i = 0; i < forming.swarm.peers.size(); ++i) speeds.push_back(speed_of(forming, i));
  return speeds;
}

std::vector<std::size_t> fastest_first(const std::vector<double>& speeds) {
  std::vector<std::size_t> peers(speeds.size());
  std::iota(peers.begin(), peers.end(), std::size_t{0});
  std::ranges::stable_sort(peers, std::greater<>(), [&](std::size_t peer) { return speeds[peer]; });
  return peers;
}

// The order in which a cluster's peers are the fastest pipeline: a few are tried. Each begins with another peer and
// goes on with whoever has the best link; one has those with most memory first, because early stages keep most.
std::vector<std::size_t> ordered(const Forming& forming, std::vector<std::size_t> peers) {
  constexpr std::size_t kMostBeginnings = 4;
  if (peers.size() < 2) return peers;
  std::ranges::sort(peers);
  const auto memory = [&](std::size_t peer) {
    return forming.swarm.peers[peer].memory.value_or(std::numeric_limits<Bytes>::max());
  };
  std::vector<std::size_t> best = peers;
  std::ranges::stable_sort(best, std::greater<>(), memory);
  double least = step_of(forming, best);
  for (std::size_t first = 0; first < std::min(peers.size(), kMostBeginnings); ++first) {
    std::vector<std::size_t> chain = {peers[first]}, left = peers;
    std::erase(left, peers[first]);
    while (!left.empty()) {
      const auto next = std::ranges::max_element(left, {}, [&](std::size_t peer) {
        const Link there = forming.swarm.link(chain.back(), peer), back = forming.swarm.link(peer, chain.back());
        return std::min(there.bandwidth, back.bandwidth);
      });
      chain.push_back(*next);
      left.erase(next);
    }
    const double own = step_of(forming, chain);
    if (own < least) least = own, best = chain;
  }
  return best;
}

// A formation that is being improved.
class Search {
 public:
  Search(const Forming& forming, Formation clusters) : forming_(forming), random_({kSeed}) {
    for (auto& cluster : clusters) {
      clusters_.push_back(ordered(forming, std::move(cluster)));
      steps_.push_back(step_of(forming, clusters_.back()));
    }
  }

  Formation run() {
    std::size_t in_vain = 0;
    for (std::size_t tries = 0; tries < kMostTries && in_vain < kTriesInARow && clusters_.size() > 1; ++tries) {
      const auto slowest = static_cast<std::size_t>(std::ranges::max_element(steps_) - steps_.begin());
      in_vain = try_to_help(slowest) ? 0 : in_vain + 1;
    }
    for (auto& cluster : clusters_) cluster = ordered(forming_, std::move(cluster));
    const bool fits = std::ranges::none_of(clusters_, [&](const auto& c) { return step_of(forming_, c) == kNever; });
    return fits ? clusters_ : Formation{};
  }

 private:
  // A peer comes from another cluster, goes there, or is swapped. Kept if the slower of the two is faster then; where
  // neither fits, if one of them does.
  bool try_to_help(std::size_t slowest) {
    std::size_t other = random_.below(clusters_.size() - 1);
    if (other >= slowest) ++other;
    std::vector<std::size_t> own = clusters_[slowest], theirs = clusters_[other];
    const std::uint64_t kind = random_.below(3);
    const std::size_t mine = random_.below(own.size()), yours = random_.below(theirs.size());
    if (kind == 0) {
      std::swap(own[mine], theirs[yours]);
    } else if (kind == 1 && theirs.size() > 1) {
      own.push_back(theirs[yours]);
      theirs.erase(theirs.begin() + static_cast<std::ptrdiff_t>(yours));
    } else if (kind == 2 && own.size() > 1) {
      theirs.push_back(own[mine]);
      own.erase(own.begin() + static_cast<std::ptrdiff_t>(mine));
    } else {
      return false;
    }
    const double own_step = step_of(forming_, own), their_step = step_of(forming_, theirs);
    const auto before = std::minmax(steps_[slowest], steps_[other]), after = std::minmax(own_step, their_step);
    const bool helps = after.second < before.second || (after.second == before.second && after.first < before.first);
    if (!helps) return false;
    clusters_[slowest] = std::move(own);
    clusters_[other] = std::move(theirs);
    steps_[slowest] = own_step;
    steps_[other] = their_step;
    return true;
  }

  const Forming& forming_;
  Random random_;
  Formation clusters_;
  std::vector<double> steps_;
};

// How good the way from one cluster to the next is: the slowest of its links, by segment.
class Ways {
 public:
  Ways(const Swarm& swarm, const Formation& clusters, std::span<const Cut> cuts, std::size_t layers)
      : swarm_(swarm), clusters_(clusters), segments_(segments(cuts, layers)) {}

  double from(std::size_t a, std::size_t b) const {
    double slowest = kNever;
    for (const Segment& segment : segments_) {
      const std::size_t sender = clusters_[a][segment.stages[a]], receiver = clusters_[b][segment.stages[b]];
      slowest = std::min(slowest, swarm_.link(sender, receiver).bandwidth);
    }
    return slowest;
  }

  // The slowest link of a ring, and the sum of all.
  std::pair<double, double> of(const std::vector<std::size_t>& order) const {
    std::pair<double, double> worth{kNever, 0};
    for (std::size_t i = 0; i < order.size(); ++i) {
      const double own = from(order[i], order[(i + 1) % order.size()]);
      worth.first = std::min(worth.first, own);
      worth.second += std::min(own, 1e15);
    }
    return worth;
  }

 private:
  const Swarm& swarm_;
  const Formation& clusters_;
  std::vector<Segment> segments_;
};

}  // namespace

double step_of(const Forming& forming, std::span<const std::size_t> peers) {
  const std::vector<Worker> workers = workers_of(forming.swarm, peers, forming.schedule.micro_batches);
  const double slowest = fastest(forming.job.model, workers, forming.schedule, forming.keeping);
  const auto micro_batches = static_cast<double>(forming.schedule.micro_batches);
  const double idle = is_synchronous(forming.schedule.schedule) ? static_cast<double>(peers.size()) - 1 : 0;
  return slowest * (micro_batches + idle);
}

Formation form(const Forming& forming, std::size_t clusters) {
  const std::size_t peers = forming.swarm.peers.size();
  ROOKERY_CHECK(clusters > 0 && clusters <= peers, "{} clusters of {} peers", clusters, peers);
  const std::vector<double> speeds = speeds_of(forming);
  const std::vector<std::size_t> by_speed = fastest_first(speeds);
  // Each goes where there is least so far, as long as there are layers for it.
  Formation result(clusters);
  std::vector<double> together(clusters);
  for (const std::size_t peer : by_speed) {
    std::optional<std::size_t> place;
    for (std::size_t c = 0; c < clusters; ++c) {
      if (result[c].size() >= forming.job.model.size()) continue;
      if (!place || together[c] < together[*place]) place = c;
    }
    if (!place) return {};
    result[*place].push_back(peer);
    together[*place] += speeds[peer];
  }
  return Search(forming, std::move(result)).run();
}

Formation deal_evenly(const Forming& forming, std::size_t clusters) {
  const std::vector<std::size_t> by_speed = fastest_first(speeds_of(forming));
  ROOKERY_CHECK(clusters > 0 && clusters <= by_speed.size(), "{} clusters of {} peers", clusters, by_speed.size());
  if (by_speed.size() > clusters * forming.job.model.size()) return {};
  Formation result(clusters);
  for (std::size_t i = 0; i < by_speed.size(); ++i) {  // there and back again
    const std::size_t place = i % clusters;
    result[i / clusters % 2 == 0 ? place : clusters - 1 - place].push_back(by_speed[i]);
  }
  for (auto& cluster : result) {
    cluster = ordered(forming, std::move(cluster));
    if (step_of(forming, cluster) == kNever) return {};
  }
  return result;
}

std::vector<std::size_t> ring_order(const Swarm& swarm, const Formation& clusters, std::span<const Cut> cuts,
                                    std::size_t layers) {
  constexpr std::size_t kMostImproved = 64;  // clusters, beyond which the first order has to do
  const Ways ways(swarm, clusters, cuts, layers);
  std::vector<std::size_t> order = {0}, left(clusters.size() - 1);
  std::iota(left.begin(), left.end(), std::size_t{1});
  while (!left.empty()) {
    const auto next =
        std::ranges::max_element(left, {}, [&](std::size_t cluster) { return ways.from(order.back(), cluster); });
    order.push_back(*next);
    left.erase(next);
  }
  if (clusters.size() < 3 || clusters.size() > kMostImproved) return order;  // of two there is only one ring
  auto worth = ways.of(order);
  for (bool better = true; better;) {
    better = false;
    for (std::size_t i = 1; i + 1 < order.size(); ++i) {
      for (std::size_t j = i + 1; j < order.size(); ++j) {
        std::vector<std::size_t> other = order;
        std::reverse(other.begin() + static_cast<std::ptrdiff_t>(i),
                     other.begin() + static_cast<std::ptrdiff_t>(j) + 1);
        if (const auto own = ways.of(other); own > worth) worth = own, order = other, better = true;
      }
    }
  }
  return order;
}

}  // namespace rookery::plan
