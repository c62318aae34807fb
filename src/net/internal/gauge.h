#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "base/clock.h"

namespace rookery::net::internal {

// How fast bytes come when there are many of them: a link is measured by what it has to carry anyway. Only stretches
// in which bytes keep coming count; what others leave unsaid in between says nothing about the link. Confined to one
// executor.
class Gauge {
 public:
  void came(Time now, std::size_t bytes) {
    if (now - last_ > kPause) resumed_ = now;
    last_ = now;
    if (now - resumed_ < kSettled) return begin(now);  // these may have waited somewhere for any length of time
    bytes_ += bytes;
    const Duration passed = now - began_;
    if (passed < kStretch) return;
    if (bytes_ >= kEnough) {
      const double rate = static_cast<double>(bytes_) / std::chrono::duration<double>(passed).count();
      rate_ = std::max(rate, rate_ + (rate - rate_) / kMemory);
    }
    begin(now);
  }

  // Bytes/s of the fastest stretches of late; 0: there was none.
  double rate() const { return rate_; }

 private:
  static constexpr Duration kStretch = std::chrono::milliseconds(50), kPause = std::chrono::milliseconds(20);
  static constexpr Duration kSettled = std::chrono::milliseconds(5);  // after a pause
  static constexpr std::uint64_t kEnough = 4096;
  static constexpr double kMemory = 32;  // stretches in which a link that has become slower is forgotten to be fast

  void begin(Time now) {
    began_ = now;
    bytes_ = 0;
  }

  Time began_{}, last_{}, resumed_{};
  std::uint64_t bytes_ = 0;
  double rate_ = 0;
};

}  // namespace rookery::net::internal
