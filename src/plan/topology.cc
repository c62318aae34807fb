#include "plan/topology.h"

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>

#include "base/error.h"

namespace rookery::plan {
namespace {

using Ranks = std::vector<std::size_t>;

// Builds phases from groups. Whoever is in no group of a phase keeps its values.
class Builder {
 public:
  explicit Builder(const std::vector<Member>& members) : members_(members) {}

  std::size_t size() const { return members_.size(); }
  std::size_t phases() const { return phases_.size(); }
  double weight_of(const Ranks& ranks) const {
    return std::accumulate(ranks.begin(), ranks.end(), 0.0,
                           [&](double sum, std::size_t rank) { return sum + members_[rank].weight; });
  }

  // A phase in which everybody is alone, at this index or after all others.
  std::vector<Mix>& phase(std::size_t index) {
    while (phases_.size() <= index) {
      auto& alone = phases_.emplace_back();
      for (std::size_t rank = 0; rank < size(); ++rank) alone.push_back({.members = {rank}, .weights = {1.0f}});
    }
    return phases_[index];
  }

  // All members of the group end with its weighted mean.
  void average(std::size_t index, Ranks group) {
    std::ranges::sort(group);
    const double total = weight_of(group);
    std::vector<float> weights;
    for (const std::size_t rank : group) weights.push_back(static_cast<float>(members_[rank].weight / total));
    for (const std::size_t rank : group) phase(index)[rank] = {.members = group, .weights = weights, .averages = true};
  }

  // The first takes `share` from the second; the second as much from the first as conserves the mean.
  void exchange(std::size_t index, std::size_t first, std::size_t second, double share) {
    const double back = share * members_[first].weight / members_[second].weight;
    put_pair(index, first, second, share);
    put_pair(index, second, first, back);
  }

  // Pairs along each bit in turn. Requires: as many ranks as a power of two
  void hypercube(std::size_t index, const Ranks& ranks) {
    for (std::size_t bit = 1; bit < ranks.size(); bit *= 2, ++index) {
      for (std::size_t i = 0; i < ranks.size(); ++i) {
        if ((i & bit) == 0) average(index, {ranks[i], ranks[i ^ bit]});
      }
    }
  }

  std::vector<std::vector<Mix>> take() { return std::move(phases_); }

 private:
  void put_pair(std::size_t index, std::size_t own, std::size_t other, double share) {
    const auto taken = static_cast<float>(share), kept = static_cast<float>(1 - share);
    phase(index)[own] = own < other ? Mix{.members = {own, other}, .weights = {kept, taken}}
                                    : Mix{.members = {other, own}, .weights = {taken, kept}};
  }

  const std::vector<Member>& members_;
  std::vector<std::vector<Mix>> phases_;
};

void complete(Builder& build) {
  Ranks all(build.size());
  std::iota(all.begin(), all.end(), 0);
  build.average(0, all);
}

void ring(Builder& build) {
  const std::size_t n = build.size();
  const bool even = n % 2 == 0;
  const std::size_t phases = even ? std::min<std::size_t>(n / 2, 2) : n;
  for (std::size_t phase = 0; phase < phases; ++phase) {
    build.phase(phase);
    const std::size_t first = even ? phase : phase + 1;  // of an odd number, the one before sits out
    for (std::size_t i = 0; i + 1 < n + (even ? 1 : 0); i += 2)
      build.average(phase, {(first + i) % n, (first + i + 1) % n});
  }
}

void one_peer_exp(Builder& build, const Ranks& ranks) {
  if (!std::has_single_bit(build.size())) {
    throw InputError("topology one-peer-exp needs 2, 4, 8, … peers, not {}; topology finite does any number",
                     build.size());
  }
  build.hypercube(build.phases(), ranks);
}

void alternating_exp_ring(Builder& build, const std::vector<Member>& members) {
  std::map<std::size_t, Ranks> by_host;
  for (std::size_t rank = 0; rank < members.size(); ++rank) by_host[members[rank].host].push_back(rank);
  std::vector<Ranks> hosts;
  for (auto& [host, ranks] : by_host) hosts.push_back(std::move(ranks));
  const std::size_t each = hosts.front().size();
  const bool alike = std::ranges::all_of(hosts, [&](const Ranks& ranks) { return ranks.size() == each; });
  if (!alike || each < 2 || hosts.size() < 2 || !std::has_single_bit(hosts.size())) {
    throw InputError(
        "topology alternating-exp-ring needs 2, 4, 8, … hosts with equally many peers, at least 2 each; "
        "topology finite does any number");
  }
  std::size_t phase = 0;
  for (std::size_t distance = 1; distance < hosts.size(); distance *= 2, phase += 2) {
    std::size_t pair = 0;
    for (std::size_t a = 0; a < hosts.size(); ++a) {
      if ((a & distance) != 0) continue;
      const std::size_t b = a ^ distance;
      const std::size_t inside = phase + pair % 2, across = phase + 1 - pair % 2;
      build.average(inside, hosts[a]);
      build.average(inside, hosts[b]);
      Ranks merged = hosts[a];
      merged.insert(merged.end(), hosts[b].begin(), hosts[b].end());
      build.average(across, merged);
      ++pair;
    }
  }
}

// Consensus among any number of peers, by pairs. They are cut into sets as large as the bits of their number, and each
// agrees by a hypercube. Then the first set meets the rest, everybody of the rest one of the set: what the rest takes
// from the set makes its mean, and that of the set, the mean of all. So the set has only to agree once more; and among
// the rest, where each set still agrees with itself, the next one meets what is left.
void finite(Builder& build, const Ranks& ranks) {
  const std::size_t first = build.phases();
  std::vector<Ranks> sets;
  for (auto next = ranks.begin(); next != ranks.end();) {
    const auto left = static_cast<std::size_t>(ranks.end() - next);
    const auto end = next + static_cast<std::ptrdiff_t>(std::bit_floor(left));
    sets.emplace_back(next, end);
    next = end;
  }
  for (const Ranks& set : sets) build.hypercube(first, set);
  std::size_t meet = first + static_cast<std::size_t>(std::bit_width(sets.front().size()) - 1);
  auto rest_begin = ranks.begin();
  for (std::size_t i = 0; i + 1 < sets.size(); ++i, ++meet) {
    rest_begin += static_cast<std::ptrdiff_t>(sets[i].size());
    const Ranks rest(rest_begin, ranks.end());
    const double share = build.weight_of(sets[i]) / (build.weight_of(sets[i]) + build.weight_of(rest));
    for (std::size_t k = 0; k < rest.size(); ++k) build.exchange(meet, rest[k], sets[i][k], share);
    build.hypercube(meet + 1, sets[i]);
  }
}

}  // namespace

Topology::Topology(std::string_view name, const std::vector<Member>& members, std::size_t rotations)
    : peers_(members.size()) {
  ROOKERY_CHECK(!members.empty() && rotations > 0);
  Ranks all(members.size());
  std::iota(all.begin(), all.end(), 0);
  for (const Member& member : members) ROOKERY_CHECK(member.weight > 0, "weight = {}", member.weight);
  Builder build(members);
  if (name == "complete") {
    complete(build);
  } else if (name == "ring") {
    ring(build);
  } else if (name == "one-peer-exp") {
    for (std::size_t i = 0; i < rotations; ++i, std::ranges::rotate(all, all.begin() + 1)) one_peer_exp(build, all);
  } else if (name == "alternating-exp-ring") {
    alternating_exp_ring(build, members);
  } else if (name == "finite") {
    for (std::size_t i = 0; i < rotations; ++i, std::ranges::rotate(all, all.begin() + 1)) finite(build, all);
  } else {
    throw InputError("there is no topology \"{}\"", name);
  }
  build.phase(0);  // one peer alone has a phase, too
  phases_ = build.take();
}

std::size_t Topology::largest_group() const {
  std::size_t largest = 1;
  for (const Phase& phase : phases_) {
    for (const Mix& mix : phase) largest = std::max(largest, mix.members.size());
  }
  return largest;
}

Mix Topology::mix(std::size_t rank, std::uint64_t step, double consensus) const {
  const std::size_t phase = step % phases_.size();
  Mix mix = phases_[phase].at(rank);
  mix.group = static_cast<std::uint32_t>(phase * peers_ + mix.members.front());
  for (std::size_t k = 0; k < mix.members.size(); ++k) {
    const double own = mix.members[k] == rank ? 1 - consensus : 0;
    mix.weights[k] = static_cast<float>(consensus * mix.weights[k] + own);
  }
  mix.averages = mix.averages && consensus == 1;
  return mix;
}

}  // namespace rookery::plan
