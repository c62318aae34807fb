#include "observe/internal/ticks.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "base/error.h"

namespace rookery::observe::internal {
namespace {

constexpr double kSlack = 1e-9;  // a value this near to an end of the range, in steps, is in it

// mantissa * 10^exponent. A quotient of whole numbers is the double nearest to the decimal number, a product is not.
double decimal(double mantissa, int exponent) {
  return exponent < 0 ? mantissa / std::pow(10, -exponent) : mantissa * std::pow(10, exponent);
}

std::vector<double> multiples(double mantissa, int exponent, Range range) {
  const double step = decimal(mantissa, exponent);
  const auto first = static_cast<std::int64_t>(std::ceil(range.low / step - kSlack));
  const auto last = static_cast<std::int64_t>(std::floor(range.high / step + kSlack));
  std::vector<double> values;
  for (std::int64_t i = first; i <= last; ++i) values.push_back(decimal(static_cast<double>(i) * mantissa, exponent));
  return values;
}

std::vector<double> powers_of_ten(Range logarithms, std::size_t most) {
  const int first = static_cast<int>(std::ceil(logarithms.low - kSlack));
  const int last = static_cast<int>(std::floor(logarithms.high + kSlack));
  const int stride = (last - first) / static_cast<int>(most) + 1;
  std::vector<double> values;
  for (int exponent = first; exponent <= last; exponent += stride) values.push_back(decimal(1, exponent));
  return values;
}

std::vector<double> ones_twos_and_fives(Range logarithms) {
  std::vector<double> values;
  for (int exponent = static_cast<int>(std::floor(logarithms.low)); exponent <= logarithms.high + kSlack; ++exponent) {
    for (const double mantissa : {1, 2, 5}) {
      const double logarithm = exponent + std::log10(mantissa);
      const bool is_inside = logarithm >= logarithms.low - kSlack && logarithm <= logarithms.high + kSlack;
      if (is_inside) values.push_back(decimal(mantissa, exponent));
    }
  }
  return values;
}

}  // namespace

void Range::include(double value) {
  low = std::min(low, value);
  high = std::max(high, value);
}

std::vector<double> linear_ticks(Range range, std::size_t most) {
  const double size = std::max(std::abs(range.low), std::abs(range.high));
  ROOKERY_CHECK(most >= 2 && range.length() > 1e-9 * size, "{} ticks from {} to {}", most, range.low, range.high);
  const int exponent = static_cast<int>(std::floor(std::log10(range.length() / static_cast<double>(most))));
  std::vector<double> ticks;
  for (const double mantissa : {1, 2, 5, 10, 20, 50}) {
    ticks = multiples(mantissa, exponent, range);
    if (ticks.size() <= most) break;
  }
  return ticks;
}

std::vector<double> logarithmic_ticks(Range logarithms, std::size_t most) {
  std::vector<double> ticks;
  if (logarithms.length() < 2) ticks = ones_twos_and_fives(logarithms);
  if (ticks.empty() || ticks.size() > most) ticks = powers_of_ten(logarithms, most);
  if (ticks.size() >= 2) return ticks;
  return linear_ticks({std::pow(10, logarithms.low), std::pow(10, logarithms.high)}, most);
}

}  // namespace rookery::observe::internal
