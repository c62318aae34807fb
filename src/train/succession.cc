#include "train/succession.h"

#include <algorithm>

#include <boost/asio/post.hpp>

#include "base/error.h"
#include "base/log.h"
#include "base/units.h"
#include "train/internal/purpose.h"

namespace rookery::train {
namespace {

using net::LinkError;

constexpr collective::DonationOptions kDonation{.offer = std::chrono::minutes(10)};

// Of a segment, from another cluster; or of all that a stage has, from the next one.
net::ChannelId donation_channel(std::uint32_t since, std::size_t segment) {
  return {.purpose = internal::kDonationPurpose, .generation = since, .index = static_cast<std::uint32_t>(segment)};
}
net::ChannelId copy_channel(std::uint32_t since) { return {.purpose = internal::kCopyPurpose, .generation = since}; }

}  // namespace

Succession::Succession(Surroundings surroundings, bool may_change)
    : s_(std::move(surroundings)),
      may_change_(may_change),
      giving_(std::make_unique<TaskGroup>(s_.network.executor())) {}

void Succession::keep_copies(std::size_t most_values, bool is_new) {
  buddies_ = std::make_unique<Buddies>(s_.network, most_values,
                                       [this](std::uint64_t step) { s_.report(wire::Held{.step = step}); });
  if (!is_new) begin_copies();
}

void Succession::begin_copies() {
  const std::size_t stage = own().stage, stages = mates().size();
  buddies_->begin({.stage = stage,
                   .stages = stages,
                   .since = own().since,
                   .next = s_.link_to(mates()[(stage + 1) % stages]),
                   .previous = s_.link_to(mates()[(stage + stages - 1) % stages])});
}

void Succession::keep(std::uint64_t step, std::uint64_t every, Snapshot snapshot) {
  if (buddies_ && buddies_->wants(step, every)) buddies_->keep(step, std::move(snapshot));
}

void Succession::covered(std::uint64_t step) {
  if (buddies_) buddies_->covered(step);
}

bool Succession::is_whole(std::size_t cluster) const {
  return std::ranges::all_of(s_.clusters.ranks[cluster], [&](std::size_t rank) { return s_.plan.peers[rank].here; });
}

std::vector<Heir> Succession::changed(const wire::Plan& before) {
  std::vector<Heir> heirs;
  for (std::size_t rank = 0; rank < s_.plan.peers.size(); ++rank) {
    const wire::PlannedPeer &peer = s_.plan.peers[rank], &then = before.peers[rank];
    if (!peer.restores || (then.restores && then.since == peer.since)) continue;
    if (peer.rewinds && !then.here) give_copy(peer, rank);  // those who were there have one of their own
    if (peer.cluster == own().cluster) continue;
    heirs.push_back(
        {.rank = rank, .cluster = peer.cluster, .stage = peer.stage, .since = peer.since, .from = peer.from});
  }
  changed_.notify();
  return heirs;
}

void Succession::pause() {
  if (buddies_) buddies_->end();
}

Task<bool> Succession::is_broken(std::uint32_t since) {
  constexpr Duration kVerdict = std::chrono::seconds(60);
  Time deadline = s_.network.now() + kVerdict;
  const bool may_be = buddies_ || (may_change_ && (since > 0 || mates().size() > 1));
  while (may_be && (is_whole(own().cluster) || own().since == since)) {
    if (is_away_) deadline = s_.network.now() + kVerdict;
    if (is_stopped_ || s_.network.now() >= deadline) co_return false;
    auto waiting = changed_.wait_until(s_.network, deadline);
    co_await std::move(waiting);
  }
  co_return may_be && !is_abandoned_;
}

Task<std::optional<Inheritance>> Succession::wait_for_place(std::uint32_t last) {
  for (std::optional<std::pair<std::uint32_t, std::uint32_t>> said;;) {
    if (is_stopped_) co_return std::nullopt;
    if (own().restores && own().since != last) {
      co_return Inheritance{.since = own().since, .from = own().from, .rewinds = own().rewinds};
    }
    const std::pair now(own().since, returns_);
    if (!own().restores && !is_whole(own().cluster) && now != said) {
      said = now;
      s_.report(wire::Paused{.generation = s_.plan.generation});
    }
    auto waiting = changed_.wait();
    co_await std::move(waiting);
  }
}

Task<> Succession::inherit(Estates estates, std::uint32_t since) {
  const std::size_t own_cluster = own().cluster;
  const auto take = [&](std::size_t segment, std::span<float> values) -> Task<> {
    std::vector<net::Link*> donors;
    for (std::size_t cluster = 0; cluster < s_.clusters.ranks.size(); ++cluster) {
      if (cluster == own_cluster || !is_whole(cluster)) continue;
      net::Link* link = s_.link_to(s_.clusters.holders(s_.clusters.segments[segment])[cluster]);
      if (link != nullptr && !link->has_ended()) donors.push_back(link);
    }
    const Time begin = s_.network.now();
    auto collecting = collective::collect(s_.network, donors, donation_channel(since, segment), values, kDonation);
    const collective::Collected collected = co_await std::move(collecting);
    spdlog::info("got {} from {} peers in {}; {} of {} pieces were here already",
                 format_bytes(static_cast<Bytes>(values.size() * sizeof(float))),
                 std::ranges::count_if(collected.by, [](std::size_t chunks) { return chunks > 0; }),
                 format_duration(s_.network.now() - begin), collected.had, collected.had + collected.chunks);
  };
  TaskGroup group(s_.network.executor());
  for (const Estate& estate : estates) group.spawn(take(estate.segment, estate.values));
  auto joined = group.join();
  co_await std::move(joined);
}

// It knows itself what it was, or the next stage does.
Task<> Succession::go_back(Estates estates, Inheritance inheritance) {
  std::size_t values = 0;
  for (const Estate& estate : estates) values += estate.values.size();
  std::shared_ptr<const Snapshot> snapshot = buddies_->own(inheritance.from);
  if (!snapshot) {
    const auto fetched = std::make_shared<Snapshot>(values);
    std::vector<net::Link*> donors;
    net::Link* next = s_.link_to(mates()[(own().stage + 1) % mates().size()]);
    if (next != nullptr) donors.push_back(next);
    auto collecting = collective::collect(s_.network, donors, copy_channel(inheritance.since), *fetched, kDonation);
    co_await std::move(collecting);
    spdlog::info("got {} from the next stage", format_bytes(static_cast<Bytes>(values * sizeof(float))));
    snapshot = fetched;
  }
  if (snapshot->size() != values) throw Error("a copy of this stage is not what it should be");
  buddies_->go_back(inheritance.from, snapshot);
  auto begin = snapshot->begin();
  for (const Estate& estate : estates) {
    const auto end = begin + static_cast<std::ptrdiff_t>(estate.values.size());
    std::copy(begin, end, estate.values.begin());
    begin = end;
  }
}

Task<bool> Succession::take_place(std::uint32_t since) {
  std::uint32_t told = returns_;
  s_.report(wire::Restored{.generation = since});
  while (!is_whole(own().cluster)) {
    if (is_stopped_ || own().since != since) co_return false;
    if (std::exchange(told, returns_) != returns_) s_.report(wire::Restored{.generation = since});
    auto waiting = changed_.wait();
    co_await std::move(waiting);
  }
  if (own().restores && own().since != since) co_return false;
  if (buddies_) begin_copies();
  co_return true;
}

void Succession::give(const Heir& heir, std::size_t segment, std::shared_ptr<const std::vector<float>> values) {
  donate(heir.rank, heir.since, donation_channel(heir.since, segment), std::move(values));
}

void Succession::disappoint(const Heir& heir, std::size_t segment) {
  net::Link* link = giving_ ? s_.link_to(heir.rank) : nullptr;
  if (link != nullptr) decline(*link, donation_channel(heir.since, segment));
}

// So that nobody waits for it.
void Succession::decline(net::Link& link, net::ChannelId channel) const {
  link.open(channel)->close(
      LinkError(net::Failure::kLate, s_.plan.peers.at(s_.rank).contact.name, "has gone on already; try again"));
}

// Whoever is new before this stage gets what was there.
void Succession::give_copy(const wire::PlannedPeer& to, std::size_t rank) {
  const std::vector<std::size_t>& ranks = s_.clusters.ranks[to.cluster];
  if (!buddies_ || ranks[(to.stage + 1) % ranks.size()] != s_.rank) return;
  if (const auto copy = buddies_->of_previous(to.from)) {
    donate(rank, to.since, copy_channel(to.since), copy);
  } else if (net::Link* link = s_.link_to(rank); link != nullptr) {
    decline(*link, copy_channel(to.since));
  }
}

// What is to be given is looked through aside: that takes a while.
void Succession::donate(std::size_t rank, std::uint32_t since, net::ChannelId channel,
                        std::shared_ptr<const std::vector<float>> values) {
  boost::asio::post(s_.aside.executor(), [this, rank, since, channel, values = std::move(values)]() mutable {
    const auto donation =
        std::make_shared<const collective::Donation>(collective::make_donation(std::move(values), kDonation));
    boost::asio::post(s_.network.executor(),
                      [this, rank, since, channel, donation] { spawn_donation(rank, since, channel, donation); });
  });
}

void Succession::spawn_donation(std::size_t rank, std::uint32_t since, net::ChannelId channel,
                                std::shared_ptr<const collective::Donation> donation) {
  net::Link* link = giving_ ? s_.link_to(rank) : nullptr;
  const wire::PlannedPeer& place = s_.plan.peers[rank];
  if (link == nullptr) return;
  if (!place.restores || place.since != since) return decline(*link, channel);  // it has got it, or does not need it
  const auto task = [](Clock& clock, net::Link& to, net::ChannelId over,
                       std::shared_ptr<const collective::Donation> what) -> Task<> {
    try {
      auto donating = collective::donate(clock, to, over, std::move(what), kDonation);
      co_await std::move(donating);
    } catch (const LinkError&) {
      // It is lost, or has got all from others.
    }
  };
  giving_->spawn(task(s_.network, *link, channel, std::move(donation)));
}

void Succession::returned() {
  is_away_ = false;
  ++returns_;
  changed_.notify();
}

void Succession::stop(bool abandoned) {
  is_stopped_ = true;
  is_abandoned_ = is_abandoned_ || abandoned;
  changed_.notify();
}

Task<> Succession::end() {
  buddies_.reset();
  auto made = s_.aside.call([] {});  // what is to be given
  co_await std::move(made);
  auto given = giving_->join();
  co_await std::move(given);
  giving_.reset();
}

}  // namespace rookery::train
