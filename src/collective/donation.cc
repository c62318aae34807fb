#include "collective/donation.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/file.h"
#include "base/signal.h"
#include "base/units.h"

namespace rookery::collective {
namespace {

using net::LinkError;

constexpr std::uint32_t kAsk = 1, kEnough = 2, kWait = 3;  // types of what the taker says
constexpr std::size_t kDigestBytes = 64;                   // in hexadecimal

// Values as chunks.
struct Chunks {
  Chunks(std::size_t values, const DonationOptions& options)
      : size(std::max<std::size_t>(1, options.chunk_bytes / sizeof(float))),
        all(values),
        count((values + size - 1) / size) {}

  template <typename T>
  std::span<T> of(std::span<T> values, std::size_t chunk) const {
    return values.subspan(chunk * size, std::min(size, all - chunk * size));
  }

  std::size_t size, all, count;
};

std::string_view digest_at(const std::string& digests, std::size_t chunk) {
  return std::string_view(digests).substr(chunk * kDigestBytes, kDigestBytes);
}

// Closes the channel if it is not set again in time.
class Patience {
 public:
  Patience(Clock& clock, net::Channel& channel, Duration stall)
      : clock_(clock), channel_(channel), stall_(stall), alarm_(clock) {}

  void renew() { expect_within(stall_); }

  void expect_within(Duration time) {
    alarm_.set(clock_.now() + time, [this, time] {
      channel_.close(LinkError(net::Failure::kLate, channel_.peer(), "said nothing for " + format_duration(time)));
    });
  }

  void rest() { alarm_.cancel(); }

 private:
  Clock& clock_;
  net::Channel& channel_;
  Duration stall_;
  Alarm alarm_;
};

// What is to be fetched, and by whom.
class Collection {
 public:
  Collection(Clock& clock, std::span<float> values, const DonationOptions& options)
      : clock_(clock),
        values_(values),
        options_(options),
        chunks_(values.size(), options),
        looking_(clock.executor()),
        grace_(clock) {}

  Task<Collected> run(std::vector<net::Link*> donors, net::ChannelId channel) {
    collected_.by.resize(donors.size());
    offers_.resize(donors.size());
    silent_.resize(donors.size());
    undecided_ = donors.size();
    if (donors.empty()) throw LinkError(nobody());
    TaskGroup group(clock_.executor());
    for (std::size_t i = 0; i < donors.size(); ++i) group.spawn(take_from(i, *donors[i], channel));
    auto joined = group.join();
    co_await std::move(joined);
    auto looked = looking_.join();
    co_await std::move(looked);
    if (!agreed_ || done_ < chunks_.count) throw LinkError(failure_.value_or(nobody()));
    co_return collected_;
  }

 private:
  static LinkError nobody() { return {net::Failure::kClosed, "", "nobody has what is needed"}; }

  Task<> take_from(std::size_t donor, net::Link& link, net::ChannelId id) {
    bool has_offered = false;
    try {
      const std::unique_ptr<net::Channel> channel = link.open(id);
      Patience patience(clock_, *channel, options_.stall);
      patience.expect_within(options_.offer);
      std::string offer(chunks_.count * kDigestBytes, '\0');
      silent_[donor] = channel.get();
      auto offering = channel->receive(std::as_writable_bytes(std::span(offer)));
      co_await std::move(offering);
      silent_[donor] = nullptr;
      patience.rest();
      has_offered = true;
      offers_[donor] = std::move(offer);
      decide();
      auto waiting = wait_until(*channel, [this] { return is_decided_; });
      co_await std::move(waiting);
      if (offers_[donor] == *agreed_) {
        auto fetching = fetch(donor, *channel, patience);
        co_await std::move(fetching);
      }
      auto thanking = channel->send({.type = kEnough});
      co_await std::move(thanking);
    } catch (const LinkError& error) {
      silent_[donor] = nullptr;
      if (!failure_) failure_ = error;
    }
    if (!has_offered) decide();
  }

  // For what others do; the donor hears that this one is still there.
  Task<> wait_until(net::Channel& channel, std::function<bool()> is_so) {
    while (!is_so()) {
      auto waiting = changed_.wait_until(clock_, clock_.now() + options_.stall / 4);
      if (co_await std::move(waiting)) continue;
      auto saying = channel.send({.type = kWait});
      co_await std::move(saying);
    }
  }

  // When all have said what they have, or failed to; or half of them have, and the rest had time to.
  void decide() {
    if (--undecided_ == 0) return settle();
    const auto offers = std::ranges::count_if(offers_, [](const auto& offer) { return offer.has_value(); });
    if (2 * static_cast<std::size_t>(offers) < offers_.size() || has_grace_) return;
    has_grace_ = true;
    grace_.set(clock_.now() + options_.stall / 5, [this] { settle(); });
  }

  // On what most of them have, or the first of those.
  void settle() {
    if (std::exchange(is_settled_, true)) return;
    std::map<std::string, std::size_t> votes;
    std::size_t most = 0;
    for (const auto& offer : offers_) {
      if (offer) ++votes[*offer];
    }
    for (const auto& offer : offers_) {
      if (!offer || votes[*offer] <= most) continue;
      most = votes[*offer];
      agreed_ = offer;
    }
    if (agreed_) {
      looking_.spawn(look_at_own());
    } else {
      is_decided_ = true;
      changed_.notify();
    }
  }

  Task<> look_at_own() {
    for (std::size_t i = 0; i < chunks_.count; ++i) {
      if (is_right(i)) {
        ++collected_.had;
        ++done_;
      } else {
        missing_.push_back(i);
      }
      co_await yield();  // it may be much
    }
    is_decided_ = true;
    changed_.notify();
    if (done_ == chunks_.count) wait_no_more();
  }

  // Somebody may not have said yet what it has.
  void wait_no_more() {
    for (net::Channel* channel : silent_) {
      if (channel != nullptr) channel->close(LinkError(net::Failure::kLate, channel->peer(), "others were faster"));
    }
  }

  bool is_right(std::size_t chunk) const {
    return digest(std::as_bytes(chunks_.of(std::span<const float>(values_), chunk))) == digest_at(*agreed_, chunk);
  }

  // A chunk that a donor was asked for.
  struct Asked {
    explicit Asked(std::size_t which) : chunk(which) {}

    std::size_t chunk;
    net::Receive receive{};
  };

  Task<> fetch(std::size_t donor, net::Channel& channel, Patience& patience) {
    std::deque<std::unique_ptr<Asked>> asked;
    struct GiveBack {
      ~GiveBack() {
        for (const auto& one : asked) all.missing_.push_back(one->chunk);
        all.changed_.notify();
      }
      Collection& all;
      std::deque<std::unique_ptr<Asked>>& asked;
    } const give_back{*this, asked};
    while (done_ < chunks_.count) {
      while (asked.size() < options_.ahead && !missing_.empty()) {
        asked.push_back(std::make_unique<Asked>(missing_.front()));
        missing_.pop_front();
        asked.back()->receive.into = std::as_writable_bytes(chunks_.of(values_, asked.back()->chunk));
        channel.post(asked.back()->receive);
        auto asking = channel.send({.type = kAsk, .tag = asked.back()->chunk});
        co_await std::move(asking);
      }
      if (asked.empty()) {  // others were asked for the rest, and may fail
        auto waiting = wait_until(channel, [this] { return done_ == chunks_.count || !missing_.empty(); });
        co_await std::move(waiting);
        continue;
      }
      patience.renew();
      auto receiving = asked.front()->receive.finish();
      co_await std::move(receiving);
      patience.rest();
      if (!is_right(asked.front()->chunk)) {
        const LinkError reason(net::Failure::kProtocol, channel.peer(), "gave other bytes than it had said");
        channel.close(reason);
        throw LinkError(reason);
      }
      asked.pop_front();
      ++done_;
      ++collected_.chunks;
      ++collected_.by[donor];
      if (done_ < chunks_.count) continue;
      changed_.notify();
      wait_no_more();
    }
  }

  Clock& clock_;
  std::span<float> values_;
  DonationOptions options_;
  Chunks chunks_;
  TaskGroup looking_;
  std::vector<std::optional<std::string>> offers_;  // digests of each donor's chunks
  std::vector<net::Channel*> silent_;               // to those who have not offered yet
  Alarm grace_;                                     // for them
  bool has_grace_ = false, is_settled_ = false;
  std::optional<std::string> agreed_;  // those that count
  bool is_decided_ = false;            // and it is known what is missing
  std::deque<std::size_t> missing_;    // chunks that nobody was asked for
  std::size_t undecided_ = 0, done_ = 0;
  Collected collected_;
  std::optional<LinkError> failure_;
  Signal changed_;
};

}  // namespace

Donation make_donation(std::shared_ptr<const std::vector<float>> values, const DonationOptions& options) {
  Donation donation{.values = std::move(values), .digests = {}};
  const std::span<const float> all = *donation.values;
  const Chunks chunks(all.size(), options);
  for (std::size_t i = 0; i < chunks.count; ++i) donation.digests += digest(std::as_bytes(chunks.of(all, i)));
  return donation;
}

Task<> donate(Clock& clock, net::Link& to, net::ChannelId id, std::shared_ptr<const Donation> donation,
              DonationOptions options) {
  const std::unique_ptr<net::Channel> channel = to.open(id);
  const std::span<const float> values = *donation->values;
  const Chunks chunks(values.size(), options);
  Patience patience(clock, *channel, options.stall);
  patience.expect_within(options.offer);
  auto offering = channel->send({}, std::as_bytes(std::span(donation->digests)));
  co_await std::move(offering);
  for (bool is_first = true;; is_first = false) {
    patience.expect_within(is_first ? options.offer : options.stall);
    auto hearing = channel->receive(net::MutableBytes());
    const net::Label label = co_await std::move(hearing);
    if (label.type == kEnough) co_return;
    if (label.type == kWait) continue;
    if (label.type != kAsk || label.tag >= chunks.count) {
      const LinkError reason(net::Failure::kProtocol, channel->peer(), "asked for what there is not");
      channel->close(reason);
      throw LinkError(reason);
    }
    auto giving = channel->send({.tag = label.tag}, std::as_bytes(chunks.of(values, label.tag)));
    co_await std::move(giving);
  }
}

Task<Collected> collect(Clock& clock, std::vector<net::Link*> donors, net::ChannelId channel, std::span<float> values,
                        DonationOptions options) {
  Collection collection(clock, values, options);
  auto running = collection.run(std::move(donors), channel);
  co_return co_await std::move(running);
}

}  // namespace rookery::collective
