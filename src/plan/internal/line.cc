#include "plan/internal/line.h"

#include <algorithm>
#include <limits>

namespace rookery::plan::internal {

double last_end(const std::vector<OnALine>& transfers) {
  struct UnderWay {
    OnALine transfer;
    double left = 1;  // the share that is still to come
  };
  double now = 0;
  std::vector<UnderWay> under_way;
  for (std::size_t next = 0; next < transfers.size() || !under_way.empty();) {
    if (under_way.empty()) now = std::max(now, transfers[next].ready);
    while (next < transfers.size() && transfers[next].ready <= now) under_way.push_back({transfers[next++]});
    const auto many = static_cast<double>(under_way.size());
    const auto takes = [many](const OnALine& own) { return std::max(own.alone, own.busy * many); };
    // To whatever happens first: one ends, or another begins.
    double passes = next < transfers.size() ? transfers[next].ready - now : std::numeric_limits<double>::infinity();
    for (const UnderWay& own : under_way) passes = std::min(passes, own.left * takes(own.transfer));
    for (UnderWay& own : under_way) {
      const double whole = takes(own.transfer);
      own.left = whole > 0 ? own.left - passes / whole : 0;
    }
    now += passes;
    constexpr double kNothing = 1e-9;
    std::erase_if(under_way, [](const UnderWay& own) { return own.left < kNothing; });
  }
  return now;
}

}  // namespace rookery::plan::internal
