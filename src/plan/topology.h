#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace rookery::plan {

// What one peer does in one step of gossip: x = sum over the members of weights[k] * x[members[k]].
struct Mix {
  std::vector<std::size_t> members;  // ranks, ascending, this peer's own among them
  std::vector<float> weights;        // of each; their sum is 1
  std::uint32_t group = 0;           // a number that the members have in common, and no other group of the topology
  bool averages = false;             // all members end with the same: what each brings, by its own weight

  bool operator==(const Mix&) const = default;
};

// Those who take part in gossip, in the order of their ranks.
struct Member {
  double weight = 1;     // π: its share in the mean, e.g. samples in a step. Positive
  std::size_t host = 0;  // members of one host are close to each other
};

// Who mixes with whom: a periodic schedule of disjoint groups, every peer in exactly one of them in every step. Each
// mix conserves the π-weighted mean over all peers: π_i W_ij = π_j W_ji.
//
//   complete              all in one group
//   ring                  neighbours in pairs, then the other neighbours; of an odd number one sits out in turn
//   one-peer-exp          n = 2^r: at phase k peer i pairs with i XOR 2^k; consensus after r phases
//   alternating-exp-ring  2^r hosts with L >= 2 peers each: groups within hosts, and merged groups of two hosts, so
//   that
//                         at any moment half of the hosts use the links between them; consensus after 2r phases
//   finite                pairs, for any n: consensus after at most 2 log2(n) + 1 phases; for n = 2^r it is
//   one-peer-exp
//
// Consensus: if all weights are equal, all peers have the mean after one period, exactly but for rounding; only `ring`
// approaches it step by step. With unequal weights all of them do, except `complete`, but none ever moves the mean.
//
// A large group that averages does so on a ring: each of m members sends 2(m-1)/m of its values, not m-1 times all.
constexpr std::size_t kSmallestRing = 4;

class Topology {
 public:
  // Throws InputError if there is no such topology, or none for these members, and says which would do.
  // `rotations`: after one period of one-peer-exp and finite the next one follows in which everybody has the part that
  // its neighbour had, so often: whoever misses somebody who was lost soon has others in its place. All of them are the
  // period then. Requires: rotations > 0
  Topology(std::string_view name, const std::vector<Member>& members, std::size_t rotations = 1);

  std::size_t peers() const { return peers_; }
  std::size_t period() const { return phases_.size(); }
  std::size_t largest_group() const;

  // Of the peer of this rank at a step, with consensus factor γ: γW + (1-γ)I.
  Mix mix(std::size_t rank, std::uint64_t step, double consensus = 1) const;

 private:
  using Phase = std::vector<Mix>;  // of every rank

  std::size_t peers_;
  std::vector<Phase> phases_;
};

}  // namespace rookery::plan
