#include "sync/changing_rounds.h"

#include <algorithm>
#include <optional>
#include <vector>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/dispatch.hpp>

#include "base/error.h"
#include "base/signal.h"
#include "collective/ring_all_reduce.h"
#include "plan/grid.h"
#include "sync/internal/purpose.h"
#include "sync/internal/start_round.h"

namespace rookery::sync {
namespace {

using collective::RingAllReduce;
using net::LinkError;

}  // namespace

// The rings of all turns. They last until the last round has ended, which may be after ChangingRounds has gone.
// Confined to the clock's executor.
class ChangingRounds::Core : public std::enable_shared_from_this<Core> {
 public:
  Core(Clock& clock, std::size_t rank, std::size_t places, HolderOf holder_of, ChangingRoundsOptions options)
      : clock_(clock),
        rank_(rank),
        holder_of_(std::move(holder_of)),
        options_(std::move(options)),
        turns_(plan::grid_turns(rank, places, options_.group)) {}

  void start() {
    for (std::size_t slot = 0; slot < options_.slots; ++slot) {
      for (std::size_t turn = 0; turn < turns_.size(); ++turn) {
        rings_.push_back(std::make_unique<Ring>());
        build(slot, turn);
      }
    }
  }

  // Again and again, until it has gone well once.
  static Task<> average(std::shared_ptr<Core> self, Which which, std::span<float> values, std::span<float> lost) {
    Ring& ring = self->ring_of(which);
    const std::vector<float> own(values.begin(), values.end()), own_lost(lost.begin(), lost.end());
    for (;;) {
      auto agreeing = self->agreed(ring);
      co_await std::move(agreeing);
      if (which.number < *ring.first) throw LinkError(net::Failure::kLate, "", "others went on without it");
      const std::shared_ptr<RingAllReduce> sums = ring.sums;
      std::optional<LinkError> failure;
      try {
        if (sums) {  // else it is alone
          auto running = sums->run({.values = values, .weight = ring.weight, .lost = lost});
          co_await std::move(running);
        }
      } catch (const LinkError& error) {
        failure = error;
      }
      if (!failure) break;
      ring.fail(sums, *failure);
      std::ranges::copy(own, values.begin());
      std::ranges::copy(own_lost, lost.begin());
      ++self->repeated_;
    }
    ring.done = std::max(ring.done, which.number + 1);
  }

  void give_up(Which which) {
    Ring& ring = ring_of(which);
    ring.is_left = true;
    ring.fail(ring.sums, LinkError(net::Failure::kCancelled, "", "gave up a round"));
  }

  void begin_with(Which first) {
    for (std::size_t turn = 0; turn < turns_.size(); ++turn) ring_of({first.slot, turn}).done = first.number;
  }

  void changed(std::size_t place) {
    if (cancelled_) return;
    for (std::size_t turn = 0; turn < turns_.size(); ++turn) {
      if (!std::ranges::binary_search(turns_[turn], place)) continue;
      for (std::size_t slot = 0; slot < options_.slots; ++slot) build(slot, turn);
    }
  }

  void cancel(const LinkError& reason) {
    cancelled_ = true;
    for (const auto& ring : rings_) {
      ring->is_left = true;
      ring->fail(ring->sums, reason);
    }
  }

  const ChangingRoundsOptions& options() const { return options_; }
  std::uint64_t repeated() const { return repeated_; }

 private:
  // Of one slot and turn, with those who are there now.
  struct Ring {
    std::shared_ptr<RingAllReduce> sums, greeting;  // nothing where this peer is alone
    float weight = 1;                               // of this peer in the mean
    std::uint64_t done = 0;                         // rounds before this one are over for this peer
    std::optional<std::uint64_t> first{};  // and this is the first that is not over for any member, once agreed
    bool is_left = false;                  // this peer takes no part
    std::shared_ptr<const LinkError> failure{};
    Signal changed{};

    // Unless there is another one in the meantime.
    void fail(const std::shared_ptr<RingAllReduce>& failed, const LinkError& reason) {
      if (failed != sums) return;
      if (sums) sums->cancel(reason);
      if (greeting) greeting->cancel(reason);
      if (!failure) failure = std::make_shared<LinkError>(reason);
      first.reset();
      changed.notify();
    }
  };

  // Waits until the members know with which round they go on. A ring that has failed has another one soon: whoever was
  // lost leaves its place.
  Task<> agreed(Ring& ring) {
    for (Time patience = kNever; !ring.first;) {
      if (ring.failure && patience == kNever) patience = clock_.now() + options_.stall;
      if (!ring.failure) patience = kNever;
      if (ring.failure && (ring.is_left || clock_.now() >= patience)) throw LinkError(*ring.failure);
      auto wait = ring.changed.wait_until(clock_, patience);
      co_await std::move(wait);
    }
  }

  Ring& ring_of(Which which) {
    ROOKERY_CHECK(which.slot < options_.slots, "slot {} of {}", which.slot, options_.slots);
    return *rings_[which.slot * turns_.size() + which.number % turns_.size()];
  }

  void build(std::size_t slot, std::size_t turn) {
    Ring& ring = *rings_[slot * turns_.size() + turn];
    ring.fail(ring.sums, LinkError(net::Failure::kCancelled, "", "others have come or gone"));
    ring.failure.reset();
    ring.first.reset();
    ring.is_left = false;
    ring.sums.reset();
    ring.greeting.reset();
    std::vector<net::Link*> links;
    std::uint32_t generation = options_.generation;
    std::size_t own = 0;
    double weights = 0, weight = 1;
    for (const std::size_t place : turns_[turn]) {
      const Holder holder = holder_of_(place);
      generation = std::max(generation, holder.since);
      if (place == rank_) {
        own = links.size();
        weight = holder.weight;
        if (!holder.here) {
          ring.is_left = true;
          ring.fail(nullptr, LinkError(net::Failure::kClosed, "", "takes no part at the moment"));
          return;
        }
      }
      if (!holder.here) continue;
      weights += holder.weight;
      links.push_back(holder.link);
    }
    ring.weight = static_cast<float>(weight / weights);
    const std::size_t size = links.size();
    if (size > 1) {
      const collective::Ring neighbours{
          .rank = own, .size = size, .previous = links[(own + size - 1) % size], .next = links[(own + 1) % size]};
      ring.sums = make(neighbours, channel(slot, turn, generation, 0), options_.codec);
      if (generation != options_.generation) {
        ring.greeting = make(neighbours, channel(slot, turn, generation, 1), collective::Codec::kNone);
        boost::asio::co_spawn(clock_.executor(), greet(shared_from_this(), ring, ring.greeting, size),
                              boost::asio::detached);
        return;
      }
    }
    ring.first = ring.done;
    ring.changed.notify();
  }

  std::shared_ptr<RingAllReduce> make(const collective::Ring& neighbours, net::ChannelId first,
                                      collective::Codec codec) const {
    return std::make_shared<RingAllReduce>(
        clock_, neighbours, first,
        collective::AllReduceOptions{
            .codec = codec, .chunk_bytes = internal::chunk_bytes(options_.scale), .stall = options_.stall});
  }

  net::ChannelId channel(std::size_t slot, std::size_t turn, std::uint32_t generation, std::size_t kind) const {
    const std::size_t steps = 2 * (options_.group - 1);
    const std::size_t first = ((slot * turns_.size() + turn) * 2 + kind) * steps;
    ROOKERY_CHECK(first + steps <= internal::kIndicesPerSegment, "slot {}, turn {}", slot, turn);
    return {.purpose = internal::kChangingPurpose,
            .generation = generation,
            .index = static_cast<std::uint32_t>(options_.segment * internal::kIndicesPerSegment + first)};
  }

  // The members of a new ring tell each other how far they are.
  static Task<> greet(std::shared_ptr<Core> /*self*/, Ring& ring, std::shared_ptr<RingAllReduce> greeting,
                      std::size_t size) {
    std::vector<float> done(size);  // exact below 2^24
    greeting->own_piece(done).front() = static_cast<float>(ring.done);
    std::optional<LinkError> failure;
    try {
      auto gathering = greeting->all_gather(done);
      co_await std::move(gathering);
    } catch (const LinkError& error) {
      failure = error;
    }
    if (ring.greeting != greeting) co_return;  // there is another one
    if (failure) {
      ring.fail(ring.sums, *failure);
    } else {
      ring.first = static_cast<std::uint64_t>(*std::ranges::max_element(done));
      ring.changed.notify();
    }
  }

  Clock& clock_;
  std::size_t rank_;
  HolderOf holder_of_;
  ChangingRoundsOptions options_;
  std::vector<std::vector<std::size_t>> turns_;  // places of their members
  std::vector<std::unique_ptr<Ring>> rings_;     // by slot and turn
  bool cancelled_ = false;
  std::uint64_t repeated_ = 0;
};

ChangingRounds::ChangingRounds(Clock& clock, Executor home, std::size_t rank, std::size_t places, HolderOf holder_of,
                               ChangingRoundsOptions options)
    : clock_(clock), home_(std::move(home)), rank_(rank), places_(places) {
  ROOKERY_CHECK(rank < places, "rank {} of {}", rank, places);
  core_ = std::make_shared<Core>(clock, rank, places, std::move(holder_of), std::move(options));
  core_->start();
}

ChangingRounds::~ChangingRounds() { cancel(LinkError(net::Failure::kCancelled, "", "left the round")); }

std::unique_ptr<Round> ChangingRounds::average(Which which, std::span<float> values, float /*share*/,
                                               std::span<float> lost) {
  const ChangingRoundsOptions& options = core_->options();
  return internal::start_round(clock_, home_, Core::average(core_, which, values, lost),
                               {.watch = options.watch, .what = "average", .segment = options.segment},
                               [core = core_, which] { core->give_up(which); });
}

std::unique_ptr<Round> ChangingRounds::mix(std::span<float> /*values*/, const plan::Mix& /*mix*/) {
  throw InputError("gossip is for peers that stay; choose another sync.method");
}

void ChangingRounds::begin_with(Which first) {
  boost::asio::dispatch(clock_.executor(), [core = core_, first] { core->begin_with(first); });
}

std::uint64_t ChangingRounds::repeated() const { return core_->repeated(); }

void ChangingRounds::changed(std::size_t place) { core_->changed(place); }

void ChangingRounds::cancel(const LinkError& reason) { core_->cancel(reason); }

}  // namespace rookery::sync
