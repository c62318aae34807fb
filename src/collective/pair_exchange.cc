#include "collective/pair_exchange.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "collective/internal/stall_watch.h"

namespace rookery::collective {
namespace {

constexpr std::size_t kWindow = 16;  // chunks on their way

}  // namespace

// What arrives goes to memory of its own first: a chunk must have been sent before the other's is added to it, and both
// ends would wait for each other if they received only then.
class PairExchange::Run {
 public:
  Run(PairExchange& pair, std::span<float> values, Weights weights)
      : pair_(pair),
        codec_(pair.options_.codec),
        values_(values),
        weights_(weights),
        chunk_(std::max<std::size_t>(pair.options_.chunk_bytes / sizeof(float) / kInt8Block, 1) * kInt8Block),
        slots_(std::min(kWindow, (values.size() + chunk_ - 1) / chunk_)),
        watch_(pair.clock_, pair.options_.stall) {}

  Task<> run() {
    for (std::size_t i = 0; i < slots_.size(); ++i) start(i);
    for (std::size_t chunk = 0; chunk * chunk_ < values_.size(); ++chunk) {
      Slot& slot = slots_[chunk % slots_.size()];
      co_await slot.receive.finish();
      watch_.moved([this] {
        pair_.cancel(net::LinkError(net::Failure::kLate, pair_.channel_->peer(), "sent nothing for too long"));
      });
      co_await slot.send.finish();
      mix(slot, chunk);
      if ((chunk + slots_.size()) * chunk_ < values_.size()) start(chunk + slots_.size());
    }
  }

 private:
  struct Slot {
    net::Receive receive;
    net::Send send;
    std::vector<std::byte> outgoing, incoming;
    std::vector<float> lost, decoded;
  };

  std::span<float> values(std::size_t chunk) const {
    const std::size_t begin = chunk * chunk_;
    return values_.subspan(begin, std::min(chunk_, values_.size() - begin));
  }

  void start(std::size_t chunk) {
    Slot& slot = slots_[chunk % slots_.size()];
    const std::span<float> own = values(chunk);
    const std::size_t bytes = encoded_bytes(codec_, own.size());
    slot.incoming.resize(bytes);
    slot.receive.into = slot.incoming;
    pair_.channel_->post(slot.receive);
    if (codec_ == Codec::kNone) {
      scale(weights_.own, own);
      slot.send.payload = std::as_bytes(own);
    } else {
      slot.outgoing.resize(bytes);
      slot.lost.resize(own.size());
      encode(codec_, own, slot.outgoing, slot.lost);
      slot.send.payload = slot.outgoing;
    }
    pair_.channel_->post(slot.send);
  }

  void mix(Slot& slot, std::size_t chunk) {
    const std::span<float> own = values(chunk);
    if (codec_ == Codec::kNone) return decode_add(codec_, slot.incoming, 1, own);
    slot.decoded.resize(own.size());
    decode(codec_, slot.incoming, slot.decoded);
    for (std::size_t i = 0; i < own.size(); ++i) {
      const float own_decoded = own[i] - slot.lost[i];
      own[i] += weights_.other * (slot.decoded[i] - own_decoded);
    }
  }

  PairExchange& pair_;
  Codec codec_;
  std::span<float> values_;
  Weights weights_;
  std::size_t chunk_;
  std::vector<Slot> slots_;
  internal::StallWatch watch_;
};

PairExchange::PairExchange(Clock& clock, net::Link& link, net::ChannelId channel, ExchangeOptions options)
    : clock_(clock), options_(options), channel_(link.open(channel)) {}

PairExchange::~PairExchange() = default;

Task<> PairExchange::run(std::span<float> values, Weights weights) {
  Run run(*this, values, weights);
  std::optional<net::LinkError> failure;
  try {
    auto running = run.run();
    co_await std::move(running);
  } catch (const net::LinkError& error) {
    failure = error;
  }
  if (!failure) co_return;
  cancel(*failure);
  throw net::LinkError(*failure);
}

void PairExchange::cancel(const net::LinkError& reason) { channel_->close(reason); }

}  // namespace rookery::collective
