#include "measure/internal/arrival_rate.h"

#include <algorithm>

namespace rookery::measure {

HalfBurst half_burst(std::span<const Time> arrivals) {
  HalfBurst halves{.pieces = arrivals.size() / 2};
  for (std::size_t i = 0; halves.pieces > 0 && i + halves.pieces < arrivals.size(); ++i) {
    halves.durations.push_back(arrivals[i + halves.pieces] - arrivals[i]);
  }
  return halves;
}

double rate_of(const HalfBurst& halves) {
  std::vector<Duration> durations = halves.durations;
  if (durations.empty()) return 0;
  const auto middle = durations.begin() + static_cast<std::ptrdiff_t>(durations.size() / 2);
  std::ranges::nth_element(durations, middle);
  const double seconds = std::chrono::duration<double>(*middle).count();
  return seconds > 0 ? static_cast<double>(halves.pieces) / seconds : 0;
}

}  // namespace rookery::measure
