#include "sync/gossip.h"

#include <algorithm>
#include <utility>

#include "net/error.h"

namespace rookery::sync {

Gossip::Gossip(Rounds& rounds, plan::Topology topology, GossipOptions options)
    : rounds_(rounds), topology_(std::move(topology)), options_(options) {}

void Gossip::start(Copy copy) { mixed_.resize(copy.parameters.size()); }

Task<> Gossip::end_exchange() {
  if (!exchange_) co_return;
  const auto exchange = std::move(exchange_);
  bool has_failed = false;
  try {
    auto finished = exchange->finish();
    co_await std::move(finished);
  } catch (const net::LinkError&) {
    if (!options_.changing) throw;
    has_failed = true;
  }
  const bool is_of_use = std::exchange(is_of_use_, true);
  if (has_failed) ++failed_;
  if (has_failed || !is_of_use) co_return;
  has_result_ = true;
  count_round();
}

void Gossip::begin_again(std::uint64_t /*steps_done*/, Copy /*copy*/, bool /*equal*/) {
  has_result_ = false;
  is_of_use_ = !exchange_;
}

Task<> Gossip::before_update(std::uint64_t step, Copy /*copy*/) {
  mix_ = topology_.mix(rounds_.rank(), step, options_.consensus);
  return end_exchange();
}

void Gossip::before_block(std::size_t begin, std::size_t end, Copy copy) {
  if (has_result_) std::copy(mixed_.begin() + begin, mixed_.begin() + end, copy.parameters.begin() + begin);
}

void Gossip::after_block(std::size_t begin, std::size_t end, Copy copy) {
  if (mix_.members.size() == 1) return;  // alone in this step
  std::copy(copy.parameters.begin() + begin, copy.parameters.begin() + end, mixed_.begin() + begin);
}

Task<> Gossip::after_step(std::uint64_t step, Copy copy) {
  has_result_ = false;
  if (mix_.members.size() == 1) co_return;
  exchange_ = rounds_.mix(step + 1, mixed_, mix_);
  if (options_.mode == GossipMode::kAdaptThenCombine) co_await settle(copy);
}

Task<> Gossip::settle(Copy copy) {
  auto ended = end_exchange();
  co_await std::move(ended);
  if (has_result_) std::ranges::copy(mixed_, copy.parameters.begin());
  has_result_ = false;
}

}  // namespace rookery::sync
