#pragma once

#include <cstddef>
#include <limits>
#include <vector>

namespace rookery::observe::internal {

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();

  void include(double value);
  bool is_empty() const { return low > high; }
  double length() const { return high - low; }
};

// The values at which an axis has a line and a label: round ones in `range`, at least one and at most `most`.
//
// Requires: most >= 2; numbers of at most 1e300; a range longer than 1e-9 of its larger end, and than 1e-290.

// Multiples of 1, 2 or 5 times a power of ten.
std::vector<double> linear_ticks(Range range, std::size_t most);

// Powers of ten. On less than two decades also 2 and 5 times these, and linear ticks where there are not even two.
// `logarithms` is the range of the values' logarithms to base 10.
std::vector<double> logarithmic_ticks(Range logarithms, std::size_t most);

}  // namespace rookery::observe::internal
