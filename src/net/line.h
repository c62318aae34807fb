#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/clock.h"
#include "base/random.h"
#include "base/units.h"

namespace rookery::net {

// How one direction of a connection behaves. The defaults are those of a perfect one.
struct LineOptions {
  BitsPerSecond bandwidth = 0;                   // 0: unlimited
  Duration latency{};                            // one way
  Duration jitter{};                             // up to so much more, drawn anew for every piece
  double loss = 0;                               // probability that a packet is lost, and has to be sent again
  double scale = 1;                              // each byte counts as so many: small tensors stand for large ones
  Duration turn = std::chrono::milliseconds(2);  // that a piece keeps the line

  bool perfect() const { return bandwidth == 0 && latency == Duration{} && jitter == Duration{} && loss == 0; }
};

// A network card that several lines share: all together send no more than it can.
struct Card {
  BitsPerSecond bandwidth = 0;  // 0: unlimited
  Time free{};                  // when it has sent everything so far
};

// A model of one direction: when what is sent now has left, and when it arrives. Whoever shares a line, or a card,
// shares its bandwidth. Deterministic from its seed.
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

  // What is written in parts that are no larger is headers and pings, and counts as it is, whatever the scale.
  static constexpr std::size_t kControlBytes = 64;

  Line(LineOptions options, std::uint64_t seed, std::shared_ptr<Card> card = nullptr);

  Passage send(Time now, std::size_t bytes, bool is_control = false);

  // Nothing leaves before: whoever sends is frozen.
  void hold(Time until) { free_ = std::max(free_, until); }

  const LineOptions& options() const { return options_; }

  // The size of pieces in which bytes should be sent: a turn of the line, and at least a packet.
  std::size_t piece() const;

 private:
  static Duration transmission(double bytes, BitsPerSecond bandwidth);
  Duration delay(double bytes);

  LineOptions options_;
  Random random_;
  std::shared_ptr<Card> card_;
  Time free_{};  // when the line has sent everything so far
  Time last_arrival_{};
};

}  // namespace rookery::net
