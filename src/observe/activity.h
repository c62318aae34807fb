#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/span.h"

namespace rookery::observe {

// What a peer does, as far as a timeline shows it. Rounds go on beside the rest. Peers tell it by these numbers.
enum class ActivityKind : std::uint8_t { kForward, kBackward, kUpdate, kRound, kWait };
inline constexpr std::size_t kActivityKinds = 5;
const char* name_of(ActivityKind kind);

struct ActivitySpan {
  ActivityKind kind{};
  double begin = 0, end = 0;  // seconds

  bool operator==(const ActivitySpan&) const = default;
};

// Makes fewer spans of many, which come bit by bit. Where there are too many, time is cut into slots, each of which
// shows one kind, or nothing: whichever has been shown for less than it took by most, so that what each has of the time
// stays the same in the long run, however short its spans are.
class Thinning {
 public:
  // At most so many for each second that they cover, of computing and of rounds each. In order of begin.
  std::vector<ActivitySpan> operator()(std::vector<ActivitySpan> spans, double most_per_second);

 private:
  // Seconds that each kind was not shown for yet, or too long if less than none; behind them, those of nothing.
  using Owed = std::array<double, kActivityKinds + 1>;
  static std::vector<ActivitySpan> in_slots(const std::vector<ActivitySpan>& spans, double length, Owed& owed);
  static std::vector<ActivitySpan> thin(std::vector<ActivitySpan> spans, double most_per_second, Owed& owed);

  Owed computing_{}, rounds_{};
};

// Remembers what was done since somebody last asked, a few thousand spans at most; what exceeds them is forgotten.
// Thread-safe.
class Activity {
 public:
  explicit Activity(std::function<double()> seconds);

  // Spans that are called "forward", "backward", "forward and backward", "update" or "wait …" count as such, and no
  // others. One within another takes its time away from that; waits within others that nobody could see are left out.
  BeginSpan computing();
  BeginSpan rounds();  // all of them, whatever they are called

  // What still goes on, too, as far as it has: a round when it has ended.
  std::vector<ActivitySpan> take();

 private:
  struct Core;
  std::shared_ptr<Core> core_;  // spans may end after this has gone
};

}  // namespace rookery::observe
