#include "sync/gossip.h"

#include <algorithm>

namespace rookery::sync {

Gossip::Gossip(Rounds& rounds, Topology topology, GossipOptions options)
    : rounds_(rounds), topology_(std::move(topology)), options_(options) {}

void Gossip::begin_exchange(std::uint64_t step, Copy copy) {
  const Mix mix = topology_.mix(rounds_.rank(), step, options_.consensus);
  if (mix.members.size() == 1) return;  // alone in this step
  mixed_.assign(copy.parameters.begin(), copy.parameters.end());
  exchange_ = rounds_.mix(mixed_, mix);
}

Task<> Gossip::end_exchange(Copy copy) {
  if (!exchange_) co_return;
  auto finished = exchange_->finish();
  co_await std::move(finished);
  exchange_.reset();
  std::ranges::copy(mixed_, copy.parameters.begin());
  count_round();
}

Task<> Gossip::before_update(std::uint64_t /*step*/, Copy copy) { return end_exchange(copy); }

Task<> Gossip::after_step(std::uint64_t step, Copy copy) {
  begin_exchange(step, copy);
  if (options_.mode == GossipMode::kAdaptThenCombine) co_await end_exchange(copy);
}

Task<> Gossip::settle(Copy copy) { return end_exchange(copy); }

}  // namespace rookery::sync
