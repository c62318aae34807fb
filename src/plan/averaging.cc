#include "plan/averaging.h"

#include <algorithm>
#include <limits>
#include <map>

#include "plan/grid.h"

namespace rookery::plan {
namespace {

constexpr double kChunkBytes = 256 * 1024;  // in which a ring passes on what it has

}  // namespace

Averaging::Averaging(const Swarm& swarm, std::vector<std::size_t> members, std::size_t group)
    : swarm_(swarm), sent_(members.size(), 0.0) {
  together_ = block_of(members.size(), [&](std::size_t a, std::size_t b) {
    const std::string& host = swarm.peers[members[a]].host;
    return !host.empty() && host == swarm.peers[members[b]].host;
  });
  if (together_ > group) together_ = 1;
  for (std::size_t rank = 0; rank < members.size(); ++rank) {
    bool is_first_axis = true;
    for (const GridPhase& phase : grid_phases(rank, members.size(), group, together_)) {
      const auto m = static_cast<double>(phase.members.size());
      sent_[rank] += phase.share * 2 * (m - 1) / m;
      const bool stays = is_first_axis && phase.kind == GridPhase::Kind::kAxis && together_ > 1;
      if (phase.kind == GridPhase::Kind::kAxis) is_first_axis = false;
      if (phase.members.front() != rank) continue;
      Ring& ring = rings_.emplace_back(
          Ring{.phase = phase.number, .share = phase.share, .sharing = static_cast<double>(together_), .stays = stays});
      for (const std::size_t member : phase.members) ring.peers.push_back(members[member]);
    }
  }
  std::ranges::stable_sort(rings_, {}, &Ring::phase);
}

// The last peer to get it. Each peer sends a piece in each of 2(m-1) hops; a hop begins when the first chunk of the one
// before has come, and the link is free.
Transfer Averaging::on_ring(const Ring& ring, double bytes, const std::vector<double>& company) const {
  const std::size_t m = ring.peers.size();
  const double piece = bytes * ring.share / static_cast<double>(m), hops = 2 * static_cast<double>(m - 1);
  double longest_hop = 0, longest_piece = 0, latency = 0;
  for (std::size_t i = 0; i < m; ++i) {
    const std::size_t from = ring.peers[i], to = ring.peers[(i + 1) % m];
    const Link link = swarm_.link(from, to);
    // What was measured is a peer's own share of the card.
    const double sharing = swarm_.links.contains({from, to}) ? 1 : ring.sharing;
    const double card = ring.stays || swarm_.are_together(from, to)
                            ? std::numeric_limits<double>::infinity()
                            : swarm_.peers[from].uplink / (company[from] * sharing);
    const double bandwidth = std::min(link.bandwidth, card);
    longest_piece = std::max(longest_piece, piece / bandwidth);
    longest_hop =
        std::max(longest_hop, std::max(piece / bandwidth, std::min(piece, kChunkBytes) / bandwidth + link.latency));
    latency = std::max(latency, link.latency);
  }
  const double asking = std::min(piece, kChunkBytes) > kUnaskedBytes ? latency : 0;
  const double all = asking + (hops - 1) * longest_hop + longest_piece + latency;
  return {.busy = hops * longest_piece, .alone = all, .latency = latency};
}

// All rings of a phase run at the same time. Within computers and between them other links are busy.
Transfer Averaging::transfer(double bytes, const std::vector<double>& company) const {
  Transfer all;
  double within = 0, between = 0;
  for (auto ring = rings_.begin(); ring != rings_.end();) {
    const auto end = std::ranges::find_if(ring, rings_.end(), [&](const Ring& r) { return r.phase != ring->phase; });
    Transfer slowest;
    const bool stays = ring->stays;
    for (; ring != end; ++ring) {
      const Transfer own = on_ring(*ring, bytes, company);
      slowest = {std::max(slowest.busy, own.busy), std::max(slowest.alone, own.alone),
                 std::max(slowest.latency, own.latency)};
    }
    (stays ? within : between) += slowest.busy;
    all.alone += slowest.alone;
    all.latency += slowest.latency;
  }
  all.busy = std::max(within, between);
  return all;
}

}  // namespace rookery::plan
