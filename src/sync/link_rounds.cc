#include "sync/link_rounds.h"

#include <future>
#include <map>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>

#include "base/error.h"
#include "base/signal.h"
#include "collective/group_exchange.h"
#include "collective/ring_all_reduce.h"

namespace rookery::sync {
namespace {

using collective::GroupExchange;
using collective::RingAllReduce;
using net::LinkError;

// Purposes of channels; each segment has a block of indices.
constexpr std::uint16_t kAveragePurpose = 0x0200, kMixPurpose = 0x0201, kApartPurpose = 0x0202;
constexpr std::uint32_t kIndicesPerSegment = 1 << 20;

}  // namespace

// The collectives of all rounds. They last until the last round has ended, which may be after LinkRounds has gone.
// Confined to the clock's executor.
struct LinkRounds::Collectives {
  Collectives(Clock& c, std::size_t own, std::vector<net::Link*> to, LinkRoundsOptions o)
      : clock(c), rank(own), links(std::move(to)), options(o) {
    const std::size_t peers = links.size();
    const auto channels = static_cast<std::uint32_t>(2 * (peers - 1));
    const collective::Ring ring{
        .rank = rank, .size = peers, .previous = links[(rank + peers - 1) % peers], .next = links[(rank + 1) % peers]};
    ROOKERY_CHECK(options.slots * channels <= kIndicesPerSegment, "{} slots for {} peers", options.slots, peers);
    for (std::size_t slot = 0; slot < options.slots; ++slot) {
      const net::ChannelId first =
          channel(options.apart ? kApartPurpose : kAveragePurpose, static_cast<std::uint32_t>(slot) * channels);
      reduces.push_back(std::make_unique<RingAllReduce>(
          clock, ring, first, collective::AllReduceOptions{.codec = options.codec, .stall = options.stall}));
    }
  }

  net::ChannelId channel(std::uint16_t purpose, std::uint32_t index) const {
    return {
        .purpose = purpose, .generation = options.generation, .index = options.segment * kIndicesPerSegment + index};
  }

  GroupExchange& exchange(const Mix& mix) {
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

  void cancel(const LinkError& reason) {
    if (failure) return;
    failure = std::make_shared<LinkError>(reason);
    for (const auto& reduce : reduces) reduce->cancel(reason);
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
    auto running = self->reduces[slot]->run(contribution);
    co_await std::move(running);
  }

  static Task<> mix(std::shared_ptr<Collectives> self, std::span<float> values, Mix mix) {
    auto running = self->exchange(mix).run(values, mix.weights);
    co_await std::move(running);
  }

  Clock& clock;
  std::size_t rank;
  std::vector<net::Link*> links;
  LinkRoundsOptions options;
  std::vector<std::unique_ptr<RingAllReduce>> reduces;                // by slot
  std::map<std::uint32_t, std::unique_ptr<GroupExchange>> exchanges;  // by group
  std::shared_ptr<const LinkError> failure;
};

// What a round shares with whoever waits for it. Confined to its home, but for `over`.
struct LinkRounds::Running {
  bool ended = false;
  std::exception_ptr failure;
  Signal changed;
  std::promise<void> over;  // for whoever cannot wait in a task; set last, on the clock's executor
};

class LinkRounds::Handle final : public Round {
 public:
  Handle(LinkRounds& rounds, std::shared_ptr<Running> running) : rounds_(rounds), running_(std::move(running)) {}

  // The memory is the caller's again when this returns, so it waits for the network.
  ~Handle() override {
    if (running_->ended) return;
    const LinkError reason(net::Failure::kCancelled, "", "gave up a round");
    if (rounds_.home_ == rounds_.clock_.executor()) {
      rounds_.cancel(reason);
      return;
    }
    boost::asio::post(rounds_.clock_.executor(),
                      [collectives = rounds_.collectives_, reason] { collectives->cancel(reason); });
    running_->over.get_future().wait();
  }

  Task<> finish() override {
    const auto running = running_;
    while (!running->ended) {
      auto wait = running->changed.wait();
      co_await std::move(wait);
    }
    if (running->failure) std::rethrow_exception(running->failure);
  }

 private:
  LinkRounds& rounds_;
  std::shared_ptr<Running> running_;
};

LinkRounds::LinkRounds(Clock& clock, Executor home, std::size_t rank, std::vector<net::Link*> links,
                       LinkRoundsOptions options)
    : clock_(clock), home_(std::move(home)), rank_(rank), peers_(links.size()), slots_(options.slots) {
  ROOKERY_CHECK(rank < peers_, "rank = {}, peers = {}", rank, peers_);
  collectives_ = std::make_shared<Collectives>(clock, rank, std::move(links), options);
}

LinkRounds::~LinkRounds() { cancel(LinkError(net::Failure::kCancelled, "", "left the round")); }

std::unique_ptr<Round> LinkRounds::average(std::size_t slot, std::span<float> values, float share,
                                           std::span<float> lost) {
  ROOKERY_CHECK(slot < slots_, "slot {} of {}", slot, slots_);
  return start(Collectives::average(collectives_, slot, {.values = values, .weight = share, .lost = lost}));
}

std::unique_ptr<Round> LinkRounds::mix(std::span<float> values, const Mix& mix) {
  return start(Collectives::mix(collectives_, values, mix));
}

std::unique_ptr<Round> LinkRounds::start(Task<> task) {
  const auto running = std::make_shared<Running>();
  boost::asio::co_spawn(clock_.executor(), Collectives::guarded(collectives_, std::move(task)),
                        [running, home = home_](std::exception_ptr failure) {
                          boost::asio::post(home, [running, failure] {
                            running->ended = true;
                            running->failure = failure;
                            running->changed.notify();
                          });
                          running->over.set_value();
                        });
  return std::make_unique<Handle>(*this, running);
}

net::Traffic LinkRounds::apart_traffic(const net::Link& link) { return link.traffic(kApartPurpose); }

void LinkRounds::cancel(const LinkError& reason) { collectives_->cancel(reason); }

}  // namespace rookery::sync
