#pragma once

#include "base/clock.h"

namespace rookery::net::internal {

// How long the other end of a link may be silent before it counts as gone: by its own history, so that nobody has to
// guess a number. It says something every heartbeat at least. Whoever has done so for a while is missed soon; whoever
// was late before is given three times as long as it was late lately.
//
//     limit = heartbeat + 3 · longest gap between two words, which is forgotten by half in a minute
//
// A value.
class Patience {
 public:
  // `first`: for those of whom nothing is known yet. What is learnt lies between an eighth of that (or three
  // heartbeats, if they are more) and three times as much.
  Patience(Duration heartbeat, Duration first) : heartbeat_(heartbeat), first_(first) {}

  // Something was heard, so long after what was heard before.
  void heard(Duration gap);

  Duration limit() const;

 private:
  Duration heartbeat_, first_;
  Duration known_{}, longest_{};  // for how long it has been heard, and the longest gap in that
};

}  // namespace rookery::net::internal
