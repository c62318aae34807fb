#include "base/suggest.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include <fmt/format.h>

namespace rookery {
namespace {

// The number of insertions, deletions, substitutions and swaps of neighbours between two names.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1), previous(b.size() + 1), current(b.size() + 1);
  std::iota(previous.begin(), previous.end(), 0u);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    current[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substituted = previous[j - 1] + (a[i - 1] != b[j - 1]);
      current[j] = std::min({previous[j] + 1, current[j - 1] + 1, substituted});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) current[j] = std::min(current[j], before[j - 2] + 1);
    }
    std::swap(before, previous);
    std::swap(previous, current);
  }
  return previous[b.size()];
}

}  // namespace

std::string did_you_mean(std::string_view written, std::span<const std::string> known) {
  const std::string* nearest = nullptr;
  std::size_t least = std::max<std::size_t>(1, written.size() / 2) + 1;  // farther is no resemblance
  for (const std::string& name : known) {
    const std::size_t distance = edit_distance(written, name);
    if (distance < least) {
      least = distance;
      nearest = &name;
    }
  }
  return nearest ? fmt::format("; did you mean '{}'?", *nearest) : "";
}

}  // namespace rookery
