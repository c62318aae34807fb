#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/span.h"

namespace rookery::observe {

// What a peer does, as far as a timeline shows it. Rounds go on beside the rest.
enum class ActivityKind : std::uint8_t { kForward, kBackward, kUpdate, kRound };
inline constexpr std::size_t kActivityKinds = 4;
const char* name_of(ActivityKind kind);

struct ActivitySpan {
  ActivityKind kind{};
  double begin = 0, end = 0;  // seconds

  bool operator==(const ActivitySpan&) const = default;
};

// At most so many spans for each second that they cover, of computing and of rounds each. Where there are more, time is
// cut into slots, each of which shows what most of it was spent on, or nothing if that is nothing. In order of begin.
std::vector<ActivitySpan> thinned(std::vector<ActivitySpan> spans, double most_per_second);

// Remembers what was done since somebody last asked, a few thousand spans at most; what exceeds them is forgotten.
// Thread-safe.
class Activity {
 public:
  explicit Activity(std::function<double()> seconds);

  // Spans that are called "forward", "backward", "forward and backward" or "update" count as such, and no others.
  BeginSpan computing();
  BeginSpan rounds();  // all of them, whatever they are called

  std::vector<ActivitySpan> take();

 private:
  struct Core;
  std::shared_ptr<Core> core_;  // spans may end after this has gone
};

}  // namespace rookery::observe
