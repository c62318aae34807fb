#include "collective/robust_reduce.h"

#include <algorithm>
#include <deque>
#include <optional>

#include "base/error.h"
#include "base/units.h"
#include "collective/internal/cut.h"
#include "collective/internal/guarded.h"
#include "collective/internal/stall_watch.h"

namespace rookery::collective {
namespace {

using net::LinkError;

constexpr std::size_t kWindow = 16;  // chunks of a piece on their way at a time

}  // namespace

// One run: a task for this member's own piece, and one for the piece of each other.
class RobustReduce::Round {
 public:
  Round(RobustReduce& reduce, std::span<float> values)
      : all_(reduce),
        values_(values),
        members_(reduce.circle_.links.size()),
        own_(reduce.circle_.rank),
        cut_(values.size(), members_, std::max<std::size_t>(1, reduce.options_.chunk_bytes / sizeof(float))),
        window_(std::min(kWindow, cut_.chunks())),
        mean_(reduce.options_.rule, reduce.circle_.weights),
        results_due_(members_, cut_.chunks()),
        watch_(reduce.clock_, reduce.options_.stall),
        patient_watch_(reduce.clock_, reduce.options_.stall + reduce.options_.stall / 2) {
    results_due_[own_] = 0;
    // They outlive the tasks, so that a failure is told with its reason before an operation is given up.
    for (std::size_t i = 0; i < window_; ++i) collected_.emplace_back(members_);
    for (std::size_t member = 0; member < members_; ++member) {
      handed_in_.emplace_back(member == own_ ? 0 : window_);
    }
  }

  Task<> run() {
    TaskGroup group(all_.clock_.executor());
    group.spawn(guarded(collect()));
    for (std::size_t member = 0; member < members_; ++member) {
      if (member != own_) group.spawn(guarded(hand_in(member)));
    }
    auto joined = group.join();
    co_await std::move(joined);
  }

  // About others: what this member thinks of itself is of no interest.
  std::vector<Finding> findings() const {
    std::vector<Finding> found = mean_.findings();
    std::erase_if(found, [this](const Finding& finding) { return finding.member == own_; });
    return found;
  }

 private:
  // A chunk of this member's own piece, as everybody brings it, and its way back.
  struct Collected {
    explicit Collected(std::size_t members) : brought(members), receives(members), sends(members) {}

    std::vector<std::vector<float>> brought;
    std::deque<net::Receive> receives;
    std::deque<net::Send> sends;
  };

  // A chunk of another's piece. The result comes to the place from which the contribution went: its owner has that
  // before it answers, and if it answers before, spoils only what it gets.
  struct HandedIn {
    net::Send send;
    net::Receive receive;
  };

  std::span<float> values(std::size_t piece, std::size_t chunk) const { return cut_.of(values_, piece, chunk); }

  Task<> guarded(Task<> task) {
    return internal::guarded(std::move(task), [this](const LinkError& failure) { all_.cancel(failure); });
  }

  // Receives are posted half a window ahead; by then the results of the chunk that had their memory have had half a
  // window of time to leave.
  Task<> collect() {
    const std::size_t chunks = cut_.chunks();
    for (std::size_t chunk = 0; chunk < window_; ++chunk) post_receives(chunk);
    for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
      Collected& slot = collected_[chunk % window_];
      collecting_ = &slot;
      for (std::size_t member = 0; member < members_; ++member) {
        if (member == own_) continue;
        co_await slot.receives[member].finish();
        check_cancelled();
        moved();
      }
      // Everybody takes part once there is something from each: from then on nobody may be late.
      all_here_ = true;
      moved();
      conclude(slot, chunk);
      const std::size_t next = chunk + kWindow / 2;
      if (next < kWindow || next >= chunks) continue;
      auto left = finish_sends(collected_[next % window_]);
      co_await std::move(left);
      post_receives(next);
    }
    for (std::size_t i = 0; i < window_; ++i) {
      auto left = finish_sends(collected_[(chunks + i) % window_]);
      co_await std::move(left);
    }
  }

  void post_receives(std::size_t chunk) {
    Collected& slot = collected_[chunk % window_];
    for (std::size_t member = 0; member < members_; ++member) {
      if (member == own_) continue;
      slot.brought[member].resize(values(own_, chunk).size());
      slot.receives[member].into = std::as_writable_bytes(std::span(slot.brought[member]));
      all_.contributions_[member]->post(slot.receives[member]);
    }
  }

  void conclude(Collected& slot, std::size_t chunk) {
    const std::span<float> own = values(own_, chunk);
    std::vector<std::span<const float>> brought(slot.brought.begin(), slot.brought.end());
    brought[own_] = own;
    mean_.add(brought, own);
    for (std::size_t member = 0; member < members_; ++member) {
      if (member == own_) continue;
      slot.sends[member].payload = std::as_bytes(own);
      slot.sends[member].grain = sizeof(float);
      all_.results_[member]->post(slot.sends[member]);
    }
  }

  Task<> finish_sends(Collected& slot) {
    for (std::size_t member = 0; member < members_; ++member) {
      if (member == own_) continue;
      co_await slot.sends[member].finish();
      check_cancelled();
      moved();
    }
  }

  // Brings this member's part of another's piece, and takes the result.
  Task<> hand_in(std::size_t member) {
    const std::size_t chunks = cut_.chunks();
    auto& slots = handed_in_[member];
    for (std::size_t chunk = 0; chunk < chunks + window_; ++chunk) {
      HandedIn& slot = slots[chunk % window_];
      if (chunk >= window_) {
        co_await slot.send.finish();
        check_cancelled();
        moved();
        co_await slot.receive.finish();
        check_cancelled();
        --results_due_[member];
        moved();
      }
      if (chunk < chunks) post(slot, member, chunk);
    }
  }

  void post(HandedIn& slot, std::size_t member, std::size_t chunk) {
    slot.receive.into = std::as_writable_bytes(values(member, chunk));
    all_.results_[member]->post(slot.receive);
    slot.send.payload = std::as_bytes(values(member, chunk));
    slot.send.grain = sizeof(float);
    all_.contributions_[member]->post(slot.send);
  }

  // An operation may have ended well just before the round was cancelled, and its memory may be gone.
  void check_cancelled() const {
    if (all_.cancelled_) throw LinkError(*all_.cancelled_);
  }

  void moved() {
    if (!all_here_) return;
    watch_.moved([this] {
      if (const std::optional<std::size_t> culprit = surely_late()) blame(*culprit);
    });
    patient_watch_.moved([this] { blame(surely_late().value_or(perhaps_late())); });
  }

  // Whoever has not brought its part of the chunk that is collected, or does not take a result that it waits for.
  std::optional<std::size_t> surely_late() const {
    for (std::size_t member = 0; member < members_; ++member) {
      if (member == own_) continue;
      if (collecting_ != nullptr && !collecting_->receives[member].ended()) return member;
      for (const Collected& slot : collected_) {
        if (!slot.sends[member].ended()) return member;
      }
    }
    return std::nullopt;
  }

  // It may itself wait for another, but then others know that better, and have had the time to say so.
  std::size_t perhaps_late() const {
    for (std::size_t member = 0; member < members_; ++member) {
      const auto is_held_up = [](const HandedIn& slot) { return !slot.send.ended(); };
      if (results_due_[member] > 0 || std::ranges::any_of(handed_in_[member], is_held_up)) return member;
    }
    return (own_ + 1) % members_;
  }

  void blame(std::size_t member) {
    all_.cancel(LinkError(net::Failure::kLate, all_.results_[member]->peer(),
                          fmt::format("sent and took nothing for {}", format_duration(all_.options_.stall))));
  }

  RobustReduce& all_;
  std::span<float> values_;
  std::size_t members_, own_;
  internal::Cut cut_;
  std::size_t window_;
  RobustMean mean_;
  std::deque<Collected> collected_;
  const Collected* collecting_ = nullptr;       // that is waited for
  std::deque<std::deque<HandedIn>> handed_in_;  // by the piece's owner
  std::vector<std::size_t> results_due_;        // from each member
  bool all_here_ = false;
  internal::StallWatch watch_, patient_watch_;
};

RobustReduce::RobustReduce(Clock& clock, Circle circle, net::ChannelId first, RobustReduceOptions options)
    : clock_(clock), circle_(std::move(circle)), options_(options) {
  const std::size_t members = circle_.links.size();
  ROOKERY_CHECK(circle_.rank < members && circle_.weights.size() == members, "rank = {}, members = {}", circle_.rank,
                members);
  net::ChannelId second = first;
  ++second.index;
  for (net::Link* link : circle_.links) {
    contributions_.push_back(link != nullptr ? link->open(first) : nullptr);
    results_.push_back(link != nullptr ? link->open(second) : nullptr);
  }
}

RobustReduce::~RobustReduce() = default;

Task<std::vector<Finding>> RobustReduce::run(std::span<float> values) {
  if (circle_.links.size() == 1 || values.empty()) co_return std::vector<Finding>{};
  if (cancelled_) throw LinkError(*cancelled_);
  Round round(*this, values);
  auto running = round.run();
  co_await std::move(running);
  co_return round.findings();
}

void RobustReduce::cancel(const LinkError& reason) {
  if (!cancelled_) cancelled_ = std::make_shared<LinkError>(reason);
  for (const auto* channels : {&contributions_, &results_}) {
    for (const auto& channel : *channels) {
      if (channel) channel->close(reason);
    }
  }
}

}  // namespace rookery::collective
