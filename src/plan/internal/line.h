#pragma once

#include <vector>

namespace rookery::plan::internal {

// A transfer over links that others use, too.
struct OnALine {
  double ready = 0;            // when it begins
  double busy = 0, alone = 0;  // how long it keeps the links busy, and takes if there is no other
};

// When all of them have ended. Those that are under way share the links evenly; none is faster than it would be alone.
// Requires: they are in the order in which they begin.
double last_end(const std::vector<OnALine>& transfers);

}  // namespace rookery::plan::internal
