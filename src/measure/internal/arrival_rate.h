#pragma once

#include <span>
#include <vector>

#include "base/clock.h"

namespace rookery::measure {

// How long half of a burst takes, of pieces that left together and came at these times, one after another: the
// durations from each piece to the one that is half of the burst behind it. Whoever receives may have had something
// else to do for a while, and finds several pieces at once then: of the durations most are right nevertheless, so the
// middle one counts.
struct HalfBurst {
  std::size_t pieces = 0;
  std::vector<Duration> durations{};
};
HalfBurst half_burst(std::span<const Time> arrivals);

// Pieces/s by the middle duration of several bursts of one size; 0 if there is none, or it is nothing.
double rate_of(const HalfBurst& halves);

}  // namespace rookery::measure
