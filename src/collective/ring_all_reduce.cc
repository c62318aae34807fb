#include "collective/ring_all_reduce.h"

#include <algorithm>
#include <deque>
#include <optional>

#include "base/units.h"
#include "collective/internal/cut.h"
#include "collective/internal/guarded.h"
#include "collective/internal/stall_watch.h"

namespace rookery::collective {
namespace {

using internal::Cut;
using net::LinkError;

constexpr std::size_t kWindow = 32;  // chunks of a step on their way at a time

// Adds a chunk to this peer's own as it arrives: own = weight * own + chunk.
class AddChunk final : public net::Fold {
 public:
  void set(Codec codec, float weight, std::span<float> own) {
    codec_ = codec;
    weight_ = weight;
    own_ = own;
  }

  void operator()(std::size_t offset, net::ConstBytes bytes) override {
    const std::size_t begin = decoded_values(codec_, offset), count = decoded_values(codec_, bytes.size());
    decode_add(codec_, bytes, weight_, own_.subspan(begin, count));
  }

  std::size_t grain() const override { return collective::grain(codec_); }

 private:
  Codec codec_ = Codec::kNone;
  float weight_ = 1;
  std::span<float> own_;
};

// Keeps a finished chunk that is not sent on. Nobody looks at it before the round has ended.
class KeepChunk final : public net::Fold {
 public:
  void set(std::span<float> own) { own_ = own; }

  void operator()(std::size_t offset, net::ConstBytes bytes) override {
    copy_past_cache(bytes, own_.subspan(offset / sizeof(float), bytes.size() / sizeof(float)));
  }

  std::size_t grain() const override { return sizeof(float); }

 private:
  std::span<float> own_;
};

// What a chunk needs while it passes through. Slots are used again, chunk after chunk.
struct Slot {
  std::vector<std::byte> encoded;  // lossy codecs
  AddChunk add;
  KeepChunk keep;
  net::Receive receive;
  net::Send send;
};

}  // namespace

// One run of some steps: a task for what this peer begins, and one for each step that it receives.
class RingAllReduce::Round {
 public:
  Round(RingAllReduce& ring, Contribution contribution, Half half)
      : all_(ring),
        contribution_(contribution),
        codec_(ring.options_.codec),
        peers_(ring.ring_.size),
        first_(half == Half::kAllGather ? peers_ - 1 : 0),
        end_(half == Half::kReduceScatter ? peers_ - 1 : 2 * (peers_ - 1)),
        cut_(contribution.values.size(), peers_, chunk_values(ring.options_)),
        watch_(ring.clock_, ring.options_.stall) {
    // They outlive the tasks, so that a failure is told with its reason before an operation is given up.
    for (std::size_t i = 0; i < end_ - first_ + 1; ++i) slots_.emplace_back(std::min(kWindow, cut_.chunks()));
  }

  Task<> run() {
    if (codec_ != Codec::kNone && reduces(first_)) {
      scale(contribution_.weight, contribution_.values);
      if (!contribution_.lost.empty()) add(contribution_.lost, contribution_.values);
      contribution_.weight = 1;
      // Nothing is lost of a piece that is not encoded.
      if (reduces(last_step())) std::ranges::fill(cut_.of(contribution_.lost, all_.finished_piece()), 0.0f);
    }
    TaskGroup group(all_.clock_.executor());
    group.spawn(guarded(begin()));
    for (std::size_t step = first_; step < end_; ++step) group.spawn(guarded(pass_on(step)));
    auto joined = group.join();
    co_await std::move(joined);
  }

 private:
  static std::size_t chunk_values(const AllReduceOptions& o) {
    return std::max<std::size_t>(o.chunk_bytes / sizeof(float) / values_per_grain(o.codec), 1) *
           values_per_grain(o.codec);
  }

  std::size_t last_step() const { return end_ - 1; }
  bool reduces(std::size_t step) const { return step < peers_ - 1; }
  std::vector<Slot>& slots_of(std::size_t step) { return slots_[step - first_]; }

  // The piece that arrives in a step.
  std::size_t piece(std::size_t step) const { return (all_.ring_.rank + 2 * peers_ - 1 - step) % peers_; }

  std::span<float> values(std::size_t piece, std::size_t chunk) const {
    return cut_.of(contribution_.values, piece, chunk);
  }

  net::Channel& in(std::size_t step) const {
    return all_.from_previous_.empty() ? *all_.to_next_[step] : *all_.from_previous_[step];
  }
  net::Channel& out(std::size_t step) const { return *all_.to_next_[step]; }

  Task<> guarded(Task<> task) {
    return internal::guarded(std::move(task), [this](const LinkError& failure) { all_.cancel(failure); });
  }

  // Sends what no other peer sends first: an unfinished piece, or this peer's own.
  Task<> begin() {
    const bool finished = !reduces(first_);
    const std::size_t piece = finished ? all_.finished_piece() : all_.ring_.rank;
    auto& slots = slots_.back();
    for (std::size_t chunk = 0; chunk < cut_.chunks(); ++chunk) {
      Slot& slot = slots[chunk % slots.size()];
      if (chunk >= slots.size()) co_await finish_send(slot);
      if (!finished) scale(contribution_.weight, values(piece, chunk));
      send(first_, slot, piece, chunk, finished);
    }
    co_await finish_sends(slots);
  }

  // Receives a step's chunks, adds to them or keeps them, and sends them on in the next step. Receives are posted half
  // a window ahead; by then the slot's last send has had half a window of time to end.
  Task<> pass_on(std::size_t step) {
    const std::size_t chunks = cut_.chunks(), ahead = kWindow / 2;
    auto& slots = slots_of(step);
    for (std::size_t chunk = 0; chunk < std::min(chunks, kWindow); ++chunk) post_receive(step, slots[chunk], chunk);
    for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
      Slot& slot = slots[chunk % slots.size()];
      co_await slot.receive.finish();
      check_cancelled();
      received(step, chunk);
      take(step, slot, chunk);
      const std::size_t next = chunk + ahead;
      if (next < kWindow || next >= chunks) continue;
      Slot& reused = slots[next % slots.size()];
      if (step < last_step()) co_await finish_send(reused);
      post_receive(step, reused, next);
    }
    if (step < last_step()) co_await finish_sends(slots);
  }

  // A peer may have received everything long before what it sends has left: that moves, too.
  Task<> finish_send(Slot& slot) {
    co_await slot.send.finish();
    check_cancelled();
    moved();
  }

  // The oldest first.
  Task<> finish_sends(std::vector<Slot>& slots) {
    for (std::size_t i = 0; i < slots.size(); ++i) co_await finish_send(slots[(cut_.chunks() + i) % slots.size()]);
  }

  // An operation may have ended well just before the round was cancelled, and its memory may be gone.
  void check_cancelled() const {
    if (all_.cancelled_) throw LinkError(*all_.cancelled_);
  }

  void post_receive(std::size_t step, Slot& slot, std::size_t chunk) {
    const std::span<float> own = values(piece(step), chunk);
    net::Receive& receive = slot.receive;
    if (reduces(step)) {
      slot.add.set(codec_, contribution_.weight, own);
      receive.fold = &slot.add;
      receive.size = encoded_bytes(codec_, own.size());
    } else if (codec_ == Codec::kNone && step == last_step()) {
      slot.keep.set(own);
      receive.fold = &slot.keep;
      receive.size = own.size_bytes();
    } else if (codec_ == Codec::kNone) {
      receive.into = std::as_writable_bytes(own);
    } else {
      slot.encoded.resize(encoded_bytes(codec_, own.size()));
      receive.into = slot.encoded;
    }
    in(step).post(receive);
  }

  void take(std::size_t step, Slot& slot, std::size_t chunk) {
    if (!reduces(step) && codec_ != Codec::kNone) decode(codec_, slot.encoded, values(piece(step), chunk));
    if (step == last_step()) return;
    const bool finished = step + 1 == peers_ - 1;
    send(step + 1, slot, piece(step), chunk, finished);
  }

  // `finished`: this is the result. Whoever finishes a piece keeps what the others will decode.
  void send(std::size_t step, Slot& slot, std::size_t piece, std::size_t chunk, bool finished) {
    const std::span<float> own = values(piece, chunk);
    if (codec_ == Codec::kNone) {
      slot.send.payload = std::as_bytes(own);
    } else {
      if (reduces(step) || finished) {
        slot.encoded.resize(encoded_bytes(codec_, own.size()));
        const std::span<float> lost = cut_.of(contribution_.lost, piece, chunk);
        finished ? encode_and_keep(codec_, own, slot.encoded, lost) : encode(codec_, own, slot.encoded, lost);
      }
      slot.send.payload = slot.encoded;
    }
    slot.send.grain = grain(codec_);
    out(step).post(slot.send);
  }

  // The first chunk of the last reducing step has passed through every peer: from then on nobody may be late. Where
  // nothing is reduced, everybody is there when there is something from each.
  void received(std::size_t step, std::size_t chunk) {
    if (chunk == 0) ++steps_begun_;
    if (chunk + 1 == cut_.chunks()) ++steps_ended_;
    all_here_ |= reduces(first_) ? step + 2 >= peers_ : steps_begun_ == end_ - first_;
    moved();
  }

  void moved() {
    if (!all_here_) return;
    watch_.moved([this] {
      const bool has_all = steps_ended_ == end_ - first_;
      const net::Link& culprit = has_all ? *all_.ring_.next : *all_.ring_.previous;
      const std::string limit = format_duration(all_.options_.stall);
      all_.cancel(LinkError(net::Failure::kLate, culprit.peer(),
                            fmt::format("{} nothing for {}", has_all ? "took" : "sent", limit)));
    });
  }

  RingAllReduce& all_;
  Contribution contribution_;
  Codec codec_;
  std::size_t peers_;
  std::size_t first_, end_;  // steps
  Cut cut_;
  std::deque<std::vector<Slot>> slots_;            // of each step, and of begin()
  std::size_t steps_begun_ = 0, steps_ended_ = 0;  // that have received something, and everything
  bool all_here_ = false;
  internal::StallWatch watch_;
};

RingAllReduce::RingAllReduce(Clock& clock, Ring ring, net::ChannelId first, AllReduceOptions options)
    : clock_(clock), ring_(ring), options_(options) {
  ROOKERY_CHECK(ring.size >= 1 && ring.rank < ring.size, "rank = {}, size = {}", ring.rank, ring.size);
  for (std::size_t step = 0; step < 2 * (ring.size - 1); ++step) {
    net::ChannelId id = first;
    id.index += static_cast<std::uint32_t>(step);
    to_next_.push_back(ring.next->open(id));
    if (ring.previous != ring.next) from_previous_.push_back(ring.previous->open(id));
  }
}

RingAllReduce::~RingAllReduce() = default;

Task<> RingAllReduce::run(Contribution contribution) { return run(contribution, Half::kBoth); }

Task<> RingAllReduce::reduce_scatter(Contribution contribution) { return run(contribution, Half::kReduceScatter); }

Task<> RingAllReduce::all_gather(std::span<float> values) { return run({.values = values}, Half::kAllGather); }

std::span<float> RingAllReduce::own_piece(std::span<float> values) const {
  return Cut(values.size(), ring_.size, 1).of(values, finished_piece());
}

Task<> RingAllReduce::run(Contribution contribution, Half half) {
  const std::span<float> lost = contribution.lost;
  ROOKERY_CHECK(lost.empty() || lost.size() == contribution.values.size());
  if (ring_.size == 1) {
    scale(contribution.weight, contribution.values);
    if (!lost.empty()) add(lost, contribution.values);
    std::ranges::fill(lost, 0.0f);
    co_return;
  }
  if (cancelled_) throw LinkError(*cancelled_);
  Round round(*this, contribution, half);
  auto running = round.run();
  co_await std::move(running);
}

void RingAllReduce::cancel(const LinkError& reason) {
  if (!cancelled_) cancelled_ = std::make_shared<LinkError>(reason);
  for (const auto& channel : to_next_) channel->close(reason);
  for (const auto& channel : from_previous_) channel->close(reason);
}

}  // namespace rookery::collective
