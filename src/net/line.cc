#include "net/line.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace rookery::net {

Line::Line(LineOptions options, std::uint64_t seed, std::shared_ptr<Card> card)
    : options_(options), random_({seed, word_of("line")}), card_(std::move(card)) {
  ROOKERY_CHECK(options.loss >= 0 && options.loss < 1 && options.scale > 0);
}

Line::Passage Line::send(Time now, std::size_t bytes, bool is_control) {
  const double charged = static_cast<double>(bytes) * (is_control ? std::min(1.0, options_.scale) : options_.scale);
  free_ = std::max(free_, now) + transmission(charged, options_.bandwidth);
  if (card_) {
    card_->free = std::max(card_->free, now) + transmission(charged, card_->bandwidth);
    free_ = std::max(free_, card_->free);
  }
  last_arrival_ = std::max(last_arrival_, free_ + delay(charged));
  return {.departure = free_, .arrival = last_arrival_};
}

Duration Line::transmission(double bytes, BitsPerSecond bandwidth) {
  if (bandwidth == 0) return Duration{};
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(8 * bytes / bandwidth));
}

Duration Line::delay(double bytes) {
  Duration delay = options_.latency;
  if (options_.jitter > Duration{}) {
    delay += Duration(static_cast<Duration::rep>(random_.uniform() * static_cast<double>(options_.jitter.count())));
  }
  if (options_.loss == 0) return delay;
  const double packets = std::ceil(bytes / kPacketBytes);
  const Duration round_trip = std::max<Duration>(2 * options_.latency + options_.jitter, std::chrono::milliseconds(1));
  double lost = 1 - std::pow(1 - options_.loss, packets);
  while (random_.uniform() < lost) {
    delay += round_trip;
    lost = options_.loss;  // of the one that is sent again
  }
  return delay;
}

std::size_t Line::piece() const {
  constexpr std::size_t kMost = 64 * 1024;
  if (options_.bandwidth == 0) return kMost;
  const double bytes = std::chrono::duration<double>(options_.turn).count() * options_.bandwidth / 8 / options_.scale;
  const double least = kPacketBytes / std::max(1.0, options_.scale) + 1;
  return static_cast<std::size_t>(std::clamp(bytes, least, double{kMost}));
}

}  // namespace rookery::net
