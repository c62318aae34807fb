#pragma once

#include <cstddef>
#include <cstdint>

#include "base/clock.h"
#include "base/random.h"
#include "base/units.h"

namespace rookery::net {

// How one direction of a connection behaves. The defaults are those of a perfect one.
struct LineOptions {
  BitsPerSecond bandwidth = 0;  // 0: unlimited
  Duration latency{};           // one way
  Duration jitter{};            // up to so much more, drawn anew for every piece
  double loss = 0;              // probability that a packet is lost, and has to be sent again
  double scale = 1;             // each byte counts as so many: small tensors stand for large ones

  bool perfect() const { return bandwidth == 0 && latency == Duration{} && jitter == Duration{} && loss == 0; }
};

// A model of one direction: when what is sent now has left, and when it arrives. Whoever shares a line (the links of
// one network card) shares its bandwidth. Deterministic from its seed.
//
// Bytes leave one after another at the line's bandwidth, and arrive in order. A lost packet arrives a round trip later,
// for each time it is lost, and holds up all behind it; how a congestion window would shrink is not modelled.
class Line {
 public:
  struct Passage {
    Time departure;
    Time arrival;
  };

  static constexpr std::size_t kPacketBytes = 1448;

  Line(LineOptions options, std::uint64_t seed);

  Passage send(Time now, std::size_t bytes);

  const LineOptions& options() const { return options_; }

  // The size of pieces in which bytes should be sent: about 2 ms of the line, and at least a packet.
  std::size_t piece() const;

 private:
  Duration transmission(std::size_t bytes) const;
  Duration delay(std::size_t bytes);

  LineOptions options_;
  Random random_;
  Time free_{};  // when the line has sent everything so far
  Time last_arrival_{};
};

}  // namespace rookery::net
