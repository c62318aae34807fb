#include "plan/internal/processors.h"

#include <algorithm>

namespace rookery::plan::internal {
namespace {

constexpr double kCrowded = 0.1;  // what peers lose to each other's caches, for as many others as there are cores, if
                                  // that was not measured

// What a step's micro-batches take a stage.
struct Work {
  std::size_t peer = 0;
  double alone = 0;            // as slow as it is asked to be, if it had the caches for itself
  double asked = 0, full = 0;  // and as it shares them: as slow as that, and at full speed
  double crowded = 1;          // what that makes of work at full speed
};

std::vector<Work> work_on(const std::string& processors, double cores, const Job& job, const Swarm& swarm,
                          const Candidate& candidate) {
  const auto sharing = [&](const Peer& peer) { return peer.processors == processors; };
  const auto peers = static_cast<double>(std::ranges::count_if(swarm.peers, sharing));
  const double usual = 1 + kCrowded * std::clamp((peers - 1) / cores, 0.0, 1.5);
  std::vector<Work> all;
  for (std::size_t c = 0; c < candidate.clusters.size(); ++c) {
    const std::vector<Worker> workers = workers_of(swarm, candidate.clusters[c], candidate.schedule.micro_batches);
    for (std::size_t s = 0; s < workers.size(); ++s) {
      const std::size_t peer = candidate.clusters[c][s];
      if (swarm.peers[peer].processors != processors) continue;
      const double crowded = swarm.peers[peer].crowding.value_or(usual);
      const Layers layers = candidate.partitions[c].cut[s];
      const ActionTimes asked = action_times(job.model, workers[s], layers, job.keeping.versions);
      Worker free = workers[s];
      free.micro_batch_time.reset();
      free.speed /= std::min(1.0, swarm.peers[peer].pace);
      const ActionTimes full = action_times(job.model, free, layers, job.keeping.versions);
      // Whoever is slowed pretends to have a computer of its own.
      const bool pretends = workers[s].micro_batch_time || swarm.peers[peer].pace < 1;
      const double asked_time = asked.forward + asked.backward, full_time = full.forward + full.backward;
      all.push_back({.peer = peer,
                     .alone = asked_time,
                     .asked = (pretends ? 1 : crowded) * asked_time,
                     .full = crowded * full_time,
                     .crowded = crowded});
    }
  }
  return all;
}

// Cores that are busy, if whoever computes takes so many times as long.
double demand(const std::vector<Work>& all, double factor) {
  double sum = 0;
  for (const Work& own : all) {
    const double takes = std::max(own.asked, own.full * factor);
    if (takes > 0) sum += own.full / takes;
  }
  return sum;
}

// The least factor with which they fit.
double fitting_factor(const std::vector<Work>& all, double cores) {
  double low = 1, high = std::max(1.0, static_cast<double>(all.size()) / cores);
  for (int i = 0; i < 40 && high - low > 1e-9; ++i) {
    const double middle = (low + high) / 2;
    (demand(all, middle) > cores ? low : high) = middle;
  }
  return high;
}

}  // namespace

Processors::Processors(const Job& job, const Swarm& swarm, const Candidate& candidate)
    : swarm_(swarm), shares_(swarm.peers.size()) {
  for (const auto& [processors, cores] : swarm.cores) {
    const std::vector<Work> all = work_on(processors, cores, job, swarm, candidate);
    const double factor = fitting_factor(all, cores);
    for (const Work& own : all) {
      const double takes = std::max(own.asked, own.full * factor);
      Share& share = shares_[own.peer];
      if (own.alone > 0) share.slowdown = takes / own.alone;
      share.at_full_speed = own.crowded * factor;
      // Only the time varies that it waits to be as slow as it is asked to be.
      const Peer& peer = swarm.peers[own.peer];
      if (takes == 0 || !(peer.step_time || peer.pace < 1)) continue;
      share.asked = own.asked / takes;
      share.least = own.full * factor / takes;
    }
    idle_[processors] = std::max(0.0, cores - demand(all, factor));
  }
}

double Processors::varied(std::size_t peer, double factor) const {
  return std::max(shares_[peer].least, shares_[peer].asked * factor);
}

double Processors::wait_for_one() const {
  constexpr double kHops = 10, kFree = 0.5;
  double longest = 0;
  for (const Peer& own : swarm_.peers) {
    const auto found = idle_.find(own.processors);
    if (found != idle_.end() && found->second < kFree) longest = std::max(longest, kHops * own.hop);
  }
  return longest;
}

double Processors::network_work(const std::vector<double>& bytes_sent, double step_seconds) const {
  double longest = 0;
  for (const auto& [processors, idle] : idle_) {
    double work = 0;
    for (std::size_t i = 0; i < swarm_.peers.size(); ++i) {
      const Peer& own = swarm_.peers[i];
      if (own.processors == processors) work += 2 * own.byte_cost * bytes_sent[i];
    }
    longest = std::max(longest, (work - idle * step_seconds) / swarm_.cores.at(processors));
  }
  return longest;
}

}  // namespace rookery::plan::internal
