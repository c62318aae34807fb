#include "net/internal/patience.h"

#include <algorithm>
#include <cmath>

namespace rookery::net::internal {
namespace {

constexpr std::chrono::duration<double> kHalfLife(60);
constexpr int kHistory = 5;  // heartbeats that tell something
constexpr int kFactor = 3;

}  // namespace

void Patience::heard(Duration gap) {
  const double kept = std::exp2(-(gap / kHalfLife));
  longest_ = std::max(gap, std::chrono::duration_cast<Duration>(kept * longest_));
  known_ += gap;
}

Duration Patience::limit() const {
  if (known_ < kHistory * heartbeat_) return first_;
  const Duration least = std::min(first_, std::max(kFactor * heartbeat_, first_ / 8));
  return std::clamp(heartbeat_ + kFactor * longest_, least, kFactor * first_);
}

}  // namespace rookery::net::internal
