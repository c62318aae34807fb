#include "plan/baselines.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "base/random.h"
#include "plan/planner.h"

namespace rookery::plan {
namespace {

using Genome = std::vector<std::size_t>;  // the cluster of each peer

Bytes whole_model(const Forming& forming) {
  return stage_memory(forming.job.model, {0, forming.job.model.size()}, forming.schedule, {}, forming.keeping).total();
}

double memory_of(const Forming& forming, std::size_t peer) {
  return static_cast<double>(forming.swarm.peers[peer].memory.value_or(whole_model(forming)));
}

// What Ravnest minimises: memory that clusters lack, as a share of what they need, and the spread of Σ ram / bandwidth.
class Objective {
 public:
  Objective(const Forming& forming, std::size_t clusters)
      : clusters_(clusters), needed_(static_cast<double>(whole_model(forming))) {
    for (std::size_t i = 0; i < forming.swarm.peers.size(); ++i) {
      memory_.push_back(memory_of(forming, i));
      load_.push_back(memory_.back() / std::min(1e12, forming.swarm.peers[i].uplink));
    }
    const double all = std::accumulate(load_.begin(), load_.end(), 0.0);
    for (double& load : load_) load /= all;
  }

  double operator()(const Genome& genome) const {
    std::vector<double> memory(clusters_), load(clusters_);
    for (std::size_t i = 0; i < genome.size(); ++i) {
      memory[genome[i]] += memory_[i];
      load[genome[i]] += load_[i];
    }
    double lacking = 0;
    for (const double own : memory) lacking += std::max(0.0, 1 - own / needed_);
    return 100 * lacking + *std::ranges::max_element(load) - *std::ranges::min_element(load);
  }

 private:
  std::size_t clusters_;
  double needed_;
  std::vector<double> memory_, load_;
};

// The candidate with these clusters and shares of layers; nothing if it does not fit.
std::optional<Candidate> dealt(const Forming& forming, const MethodOptions& method, const Formation& formation,
                               const std::function<double(std::size_t peer)>& share) {
  Candidate candidate{.clusters = formation, .schedule = forming.schedule, .method = method};
  for (const auto& peers : formation) {
    if (peers.empty() || peers.size() > forming.job.model.size()) return {};
    std::vector<double> shares;
    for (const std::size_t peer : peers) shares.push_back(share(peer));
    try {
      candidate.partitions.push_back(
          partition(forming.job.model, workers_of(forming.swarm, peers, forming.schedule.micro_batches),
                    forming.schedule, forming.keeping, proportional_cut(forming.job.model.size(), shares)));
    } catch (const InputError&) {
      return {};
    }
  }
  return candidate;
}

// Of all numbers of clusters.
Candidate best_of(const Forming& forming, const std::function<std::optional<Candidate>(std::size_t clusters)>& make) {
  std::optional<Candidate> best;
  double most = 0;
  Job job = forming.job;
  job.keeping = forming.keeping;
  for (std::size_t clusters = forming.swarm.peers.size(); clusters > 0; --clusters) {
    std::optional<Candidate> own = make(clusters);
    if (!own) continue;
    const double rate = predict(job, forming.swarm, *own).samples_per_second * worth(*own, job.goal);
    if (rate > most) most = rate, best = std::move(own);
  }
  if (!best) throw InputError("the model does not fit");
  return *best;
}

}  // namespace

Formation ravnest_formation(const Forming& forming, std::size_t clusters, std::uint64_t seed) {
  constexpr std::size_t kPopulation = 200, kGenerations = 500, kElite = 10;
  constexpr double kMutation = 0.02;
  const std::size_t peers = forming.swarm.peers.size();
  const Objective objective(forming, clusters);
  Random random({seed, word_of("ravnest"), clusters});
  std::vector<std::pair<double, Genome>> population(kPopulation);
  for (auto& [cost, genome] : population) {
    genome.resize(peers);
    for (std::size_t& cluster : genome) cluster = random.below(clusters);
    cost = objective(genome);
  }
  const auto chosen = [&]() -> const Genome& {  // the better of two
    const auto &one = population[random.below(kPopulation)], &other = population[random.below(kPopulation)];
    return (one.first < other.first ? one : other).second;
  };
  for (std::size_t generation = 0; generation < kGenerations; ++generation) {
    std::ranges::sort(population);
    std::vector<std::pair<double, Genome>> next(population.begin(), population.begin() + kElite);
    while (next.size() < kPopulation) {
      const Genome &mother = chosen(), &father = chosen();
      Genome child(peers);
      for (std::size_t i = 0; i < peers; ++i) {
        child[i] = random.uniform() < 0.5 ? mother[i] : father[i];
        if (random.uniform() < kMutation) child[i] = random.below(clusters);
      }
      const double cost = objective(child);
      next.emplace_back(cost, std::move(child));
    }
    population = std::move(next);
  }
  Formation result(clusters);
  const Genome& best = std::ranges::min(population).second;
  for (std::size_t i = 0; i < peers; ++i) result[best[i]].push_back(i);
  return result;
}

Formation even_formation(std::size_t peers, std::size_t clusters) {
  Formation result(clusters);
  for (std::size_t i = 0; i < peers; ++i) result[i * clusters / peers].push_back(i);
  return result;
}

Cut proportional_cut(std::size_t layers, std::span<const double> shares) {
  ROOKERY_CHECK(!shares.empty() && shares.size() <= layers, "{} shares of {} layers", shares.size(), layers);
  const double all = std::accumulate(shares.begin(), shares.end(), 0.0);
  Cut cut;
  double until = 0;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    until += shares[i];
    const auto wanted = static_cast<std::size_t>(std::llround(until / all * static_cast<double>(layers)));
    const std::size_t left = shares.size() - i - 1;
    const std::size_t end = left == 0 ? layers : std::clamp(wanted, begin + 1, layers - left);
    cut.push_back({begin, end});
    begin = end;
  }
  return cut;
}

Candidate ravnest(const Forming& forming, const MethodOptions& method, std::uint64_t seed) {
  return best_of(forming, [&](std::size_t clusters) {
    return dealt(forming, method, ravnest_formation(forming, clusters, seed),
                 [&](std::size_t peer) { return memory_of(forming, peer); });
  });
}

Candidate equal_shares(const Forming& forming, const MethodOptions& method) {
  return best_of(forming, [&](std::size_t clusters) {
    return dealt(forming, method, even_formation(forming.swarm.peers.size(), clusters),
                 [](std::size_t) { return 1.0; });
  });
}

}  // namespace rookery::plan
