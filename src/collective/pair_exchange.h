#pragma once

#include <memory>
#include <span>

#include "base/clock.h"
#include "collective/codec.h"
#include "net/link.h"

namespace rookery::collective {

struct ExchangeOptions {
  Codec codec = Codec::kNone;
  std::size_t chunk_bytes = 256 * 1024;       // of floats; the same at both ends
  Duration stall = std::chrono::seconds(30);  // how long nothing may move once the other has begun
};

// Gossip between two peers, again and again: one message each way, and both have mixed.
//
// With codec none both end with own * x_own + other * x_other, to the same bits. With a lossy codec Q each does
// x += other * (Q(x_other) - Q(x)), so that what the encoding loses never moves the mean (if the weights are equal),
// and copies that agree stay as they are.
class PairExchange {
 public:
  PairExchange(Clock& clock, net::Link& link, net::ChannelId channel, ExchangeOptions options);
  ~PairExchange();
  PairExchange(const PairExchange&) = delete;
  PairExchange& operator=(const PairExchange&) = delete;

  struct Weights {
    float own = 0.5f;
    float other = 0.5f;  // the other end has them the other way round
  };

  // Requires: both pass as many values; one at a time. Throws LinkError when the other fails or is late; `values` are
  // then unspecified, and the object is of no more use.
  Task<> run(std::span<float> values, Weights weights);

  void cancel(const net::LinkError& reason);

 private:
  class Run;

  Clock& clock_;
  ExchangeOptions options_;
  std::unique_ptr<net::Channel> channel_;
};

}  // namespace rookery::collective
