#include "sync/link_rounds.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "collective/group_exchange.h"
#include "collective/ring_all_reduce.h"
#include "plan/grid.h"
#include "sync/internal/purpose.h"
#include "sync/internal/start_round.h"

namespace rookery::sync {
namespace {

using collective::GroupExchange;
using collective::RingAllReduce;
using net::LinkError;
using Kind = plan::GridPhase::Kind;
using namespace internal;

constexpr std::size_t kMostPhases = 32;  // of one average

}  // namespace

// The collectives of all rounds. They last until the last round has ended, which may be after LinkRounds has gone.
// Confined to the clock's executor.
struct LinkRounds::Collectives {
  Collectives(Clock& c, std::size_t own, std::vector<net::Link*> to, LinkRoundsOptions o)
      : clock(c), rank(own), links(std::move(to)), options(o) {
    phases = plan::grid_phases(rank, links.size(), options.group, options.together);
    for (std::size_t slot = 0; slot < options.slots; ++slot) {
      for (std::size_t phase = 0; phase < phases.size(); ++phase) reduces.push_back(reduce(slot, phase));
    }
  }

  // Each ring of each slot has channels of its own, for as many steps as the largest ring has.
  std::unique_ptr<RingAllReduce> reduce(std::size_t slot, std::size_t phase) const {
    const std::size_t steps = 2 * (std::min(options.group, links.size()) - 1);
    const bool is_grid = links.size() > options.group || options.together > 1;
    const plan::GridPhase& own = phases[phase];
    const std::size_t first = (is_grid ? slot * kMostPhases + own.number : slot) * steps;
    ROOKERY_CHECK(own.number < kMostPhases && first + steps <= kIndicesPerSegment, "slot {}, phase {}", slot, phase);
    return ring_of(own.members,
                   channel(options.apart ? kApartPurpose : kAveragePurpose, static_cast<std::uint32_t>(first)),
                   own.kind == Kind::kHandOn ? collective::Codec::kNone : options.codec);
  }

  std::unique_ptr<RingAllReduce> ring_of(const std::vector<std::size_t>& members, net::ChannelId first,
                                         collective::Codec codec) const {
    const auto own = static_cast<std::size_t>(std::ranges::find(members, rank) - members.begin());
    const std::size_t size = members.size();
    const collective::Ring ring{.rank = own,
                                .size = size,
                                .previous = links[members[(own + size - 1) % size]],
                                .next = links[members[(own + 1) % size]]};
    return std::make_unique<RingAllReduce>(
        clock, ring, first,
        collective::AllReduceOptions{
            .codec = codec, .chunk_bytes = chunk_bytes(options.scale), .stall = options.stall});
  }

  net::ChannelId channel(std::uint16_t purpose, std::uint32_t index) const {
    return {
        .purpose = purpose, .generation = options.generation, .index = options.segment * kIndicesPerSegment + index};
  }

  GroupExchange& exchange(const plan::Mix& mix) {
    auto& exchange = exchanges[mix.group];
    if (exchange) return *exchange;
    std::vector<net::Link*> others;
    std::size_t place = 0;
    for (const std::size_t member : mix.members) {
      if (member == rank) {
        place = others.size();
      } else {
        others.push_back(links.at(member));
      }
    }
    exchange =
        std::make_unique<GroupExchange>(clock, others, place, channel(kMixPurpose, mix.group),
                                        collective::ExchangeOptions{.codec = options.codec, .stall = options.stall});
    if (failure) exchange->cancel(*failure);
    return *exchange;
  }

  RingAllReduce& group_ring(const plan::Mix& mix) {
    auto& ring = group_rings[mix.group];
    if (ring) return *ring;
    const auto first = static_cast<std::uint32_t>(mix.group * 2 * links.size());
    ring = ring_of(mix.members, channel(kMixRingPurpose, first), options.codec);
    if (failure) ring->cancel(*failure);
    return *ring;
  }

  void cancel(const LinkError& reason) {
    if (failure) return;
    failure = std::make_shared<LinkError>(reason);
    for (const auto& reduce : reduces) reduce->cancel(reason);
    for (const auto& [group, ring] : group_rings) ring->cancel(reason);
    for (const auto& [group, exchange] : exchanges) exchange->cancel(reason);
  }

  // A failure of one round is the failure of all.
  static Task<> guarded(std::shared_ptr<Collectives> self, Task<> round) {
    try {
      co_await std::move(round);
    } catch (const LinkError& error) {
      self->cancel(error);
      throw;
    }
  }

  static Task<> average(std::shared_ptr<Collectives> self, std::size_t slot, collective::Contribution contribution) {
    if (self->phases.empty()) {  // alone
      for (float& value : contribution.values) value *= contribution.weight;
    }
    for (std::size_t i = 0; i < self->phases.size(); ++i) {
      collective::Contribution own = contribution;
      if (i > 0) {
        own.weight = self->phases[i].brings ? 1.0f : 0.0f;
        own.lost = {};  // of sums that several have, nobody keeps what is lost: all have to stay equal
      }
      const bool is_axis = self->phases[i].kind == Kind::kAxis;
      auto running = is_axis ? along_axes(self, slot, i, own) : self->ring(slot, i).run(own);
      co_await std::move(running);
      while (is_axis && self->goes_on(i)) ++i;
    }
  }

  RingAllReduce& ring(std::size_t slot, std::size_t phase) const { return *reduces[slot * phases.size() + phase]; }

  // There is another axis after this one.
  bool goes_on(std::size_t axis) const { return axis + 1 < phases.size() && phases[axis + 1].kind == Kind::kAxis; }

  // Scatters along this axis, has the piece that is left summed along the others, and gathers.
  static Task<> along_axes(std::shared_ptr<Collectives> self, std::size_t slot, std::size_t axis,
                           collective::Contribution contribution) {
    RingAllReduce& ring = self->ring(slot, axis);
    if (!self->goes_on(axis)) {
      auto running = ring.run(contribution);
      co_await std::move(running);
      co_return;
    }
    auto scattering = ring.reduce_scatter(contribution);
    co_await std::move(scattering);
    auto others = along_axes(self, slot, axis + 1, {.values = ring.own_piece(contribution.values)});
    co_await std::move(others);
    auto gathering = ring.all_gather(contribution.values);
    co_await std::move(gathering);
  }

  bool averages_on_ring(const plan::Mix& mix) const {
    const std::size_t channels = (mix.group + std::size_t{1}) * 2 * links.size();
    return mix.averages && mix.members.size() >= plan::kSmallestRing && options.codec == collective::Codec::kNone &&
           channels <= kIndicesPerSegment;
  }

  static Task<> mix(std::shared_ptr<Collectives> self, std::span<float> values, plan::Mix mix) {
    if (self->averages_on_ring(mix)) {
      const auto own = std::ranges::find(mix.members, self->rank) - mix.members.begin();
      const float weight = mix.weights[static_cast<std::size_t>(own)];
      auto averaging = self->group_ring(mix).run({.values = values, .weight = weight});
      co_await std::move(averaging);
      co_return;
    }
    auto running = self->exchange(mix).run(values, mix.weights);
    co_await std::move(running);
  }

  Clock& clock;
  std::size_t rank;
  std::vector<net::Link*> links;
  LinkRoundsOptions options;
  std::vector<plan::GridPhase> phases;
  std::vector<std::unique_ptr<RingAllReduce>> reduces;                // by slot and phase
  std::map<std::uint32_t, std::unique_ptr<GroupExchange>> exchanges;  // by group
  std::map<std::uint32_t, std::unique_ptr<RingAllReduce>> group_rings;
  std::shared_ptr<const LinkError> failure;
};

LinkRounds::LinkRounds(Clock& clock, Executor home, std::size_t rank, std::vector<net::Link*> links,
                       LinkRoundsOptions options)
    : clock_(clock), home_(std::move(home)), rank_(rank), peers_(links.size()), slots_(options.slots) {
  ROOKERY_CHECK(rank < peers_, "rank = {}, peers = {}", rank, peers_);
  collectives_ = std::make_shared<Collectives>(clock, rank, std::move(links), options);
}

LinkRounds::~LinkRounds() { cancel(LinkError(net::Failure::kCancelled, "", "left the round")); }

std::unique_ptr<Round> LinkRounds::average(Which which, std::span<float> values, float share, std::span<float> lost) {
  ROOKERY_CHECK(which.slot < slots_, "slot {} of {}", which.slot, slots_);
  return start(Collectives::average(collectives_, which.slot, {.values = values, .weight = share, .lost = lost}),
               "average");
}

std::unique_ptr<Round> LinkRounds::mix(std::uint64_t /*step*/, std::span<float> values, const plan::Mix& mix) {
  return start(Collectives::mix(collectives_, values, mix), "mix");
}

std::unique_ptr<Round> LinkRounds::start(Task<> task, const char* what) {
  return internal::start_round(
      clock_, home_, Collectives::guarded(collectives_, std::move(task)),
      {.watch = collectives_->options.watch, .what = what, .segment = collectives_->options.segment},
      [collectives = collectives_] {
        collectives->cancel(LinkError(net::Failure::kCancelled, "", "gave up a round"));
      });
}

net::Traffic LinkRounds::apart_traffic(const net::Link& link) {
  const net::Traffic own = link.traffic(kApartPurpose), changing = link.traffic(internal::kChangingApartPurpose);
  return {.sent = own.sent + changing.sent,
          .received = own.received + changing.received,
          .payload_sent = own.payload_sent + changing.payload_sent,
          .payload_received = own.payload_received + changing.payload_received};
}

void LinkRounds::cancel(const LinkError& reason) { collectives_->cancel(reason); }

}  // namespace rookery::sync
