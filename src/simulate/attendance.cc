#include "simulate/attendance.h"

#include <algorithm>

namespace rookery::simulate {

Attendance::Attendance(std::vector<std::vector<std::size_t>> clusters) {
  for (std::size_t c = 0; c < clusters.size(); ++c) {
    Cluster& cluster = *clusters_.emplace_back(std::make_unique<Cluster>());
    cluster.ranks = std::move(clusters[c]);
    cluster.there.assign(cluster.ranks.size(), true);
    for (std::size_t stage = 0; stage < cluster.ranks.size(); ++stage) {
      const std::size_t rank = cluster.ranks[stage];
      if (rank >= places_.size()) places_.resize(rank + 1);
      places_[rank] = {c, stage};
    }
  }
}

void Attendance::begin_attempt(Cluster& cluster) {
  ++cluster.attempt;
  cluster.met = 0;
  cluster.changed.notify();
}

void Attendance::leave(std::size_t rank) {
  const auto [c, stage] = places_[rank];
  clusters_[c]->there[stage] = false;
  clusters_[c]->is_whole = false;
  begin_attempt(*clusters_[c]);
}

void Attendance::come(std::size_t rank) {
  const auto [c, stage] = places_[rank];
  clusters_[c]->there[stage] = true;
  begin_attempt(*clusters_[c]);
}

std::vector<std::size_t> Attendance::present(std::size_t cluster) const {
  std::vector<std::size_t> ranks;
  for (std::size_t stage = 0; stage < clusters_[cluster]->ranks.size(); ++stage) {
    if (clusters_[cluster]->there[stage]) ranks.push_back(clusters_[cluster]->ranks[stage]);
  }
  return ranks;
}

bool Attendance::is_complete(std::size_t cluster) const {
  return std::ranges::all_of(clusters_[cluster]->there, [](bool there) { return there; });
}

// The clusters after it, one after another: so not all go to the same one.
std::optional<std::size_t> Attendance::donor_for(std::size_t cluster) const {
  for (std::size_t i = 0; i < clusters_.size(); ++i) {
    const std::size_t other = (cluster + 1 + clusters_[cluster]->donors + i) % clusters_.size();
    if (other != cluster && is_whole(other)) return other;
  }
  return std::nullopt;
}

Task<std::optional<Attendance::Attempt>> Attendance::gather(std::size_t c) {
  Cluster& cluster = *clusters_[c];
  while (!is_complete(c) && !closed_) {
    auto wait = cluster.changed.wait();
    co_await std::move(wait);
  }
  if (closed_) co_return std::nullopt;
  co_return Attempt{.number = cluster.attempt, .donor = donor_for(c)};
}

Task<bool> Attendance::meet(std::size_t c, std::uint64_t attempt, std::function<void()> then) {
  Cluster& cluster = *clusters_[c];
  if (cluster.attempt != attempt || closed_) co_return false;
  const std::size_t stages = cluster.ranks.size(), enough = (cluster.met / stages + 1) * stages;
  if (++cluster.met == enough) {
    then();
    cluster.changed.notify();
  }
  while (cluster.attempt == attempt && cluster.met < enough && !closed_) {
    auto wait = cluster.changed.wait();
    co_await std::move(wait);
  }
  co_return cluster.attempt == attempt&& cluster.met >= enough;
}

void Attendance::give_up(std::size_t c, std::uint64_t attempt) {
  Cluster& cluster = *clusters_[c];
  if (cluster.attempt != attempt) return;
  ++cluster.donors;
  begin_attempt(cluster);
}

void Attendance::close() {
  closed_ = true;
  for (const auto& cluster : clusters_) cluster->changed.notify();
}

}  // namespace rookery::simulate
