#include "base/units.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>
#include <span>

#include <fmt/format.h>

#include "base/error.h"

namespace rookery {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};

bool same_ignoring_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

std::string known_units(std::span<const Unit> units) {
  std::string list;
  for (const Unit& unit : units) {
    if (unit.name.empty()) continue;
    if (!list.empty()) list += ", ";
    list += unit.name;
  }
  return list;
}

// The value in the unit whose factor is 1. A unit of "" in the table means that a bare number is fine.
double parse(std::string_view text, std::span<const Unit> units, std::string_view what) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || !std::isfinite(number) || number < 0) {
    throw InputError("'{}' is not a {}; write a number and a unit ({})", text, what, known_units(units));
  }
  std::string_view name(end, text.data() + text.size());
  while (!name.empty() && name.front() == ' ') name.remove_prefix(1);
  for (const Unit& unit : units) {
    if (same_ignoring_case(unit.name, name)) return number * unit.factor;
  }
  if (name.empty()) throw InputError("'{}' has no unit; write one of {}", text, known_units(units));
  throw InputError("'{}' has an unknown unit '{}'; write one of {}", text, name, known_units(units));
}

constexpr double kKiB = 1024, kMiB = kKiB * 1024, kGiB = kMiB * 1024, kTiB = kGiB * 1024;

constexpr std::array<Unit, 10> kByteUnits = {{{"", 1},
                                              {"B", 1},
                                              {"kB", 1e3},
                                              {"MB", 1e6},
                                              {"GB", 1e9},
                                              {"TB", 1e12},
                                              {"KiB", kKiB},
                                              {"MiB", kMiB},
                                              {"GiB", kGiB},
                                              {"TiB", kTiB}}};
constexpr std::array<Unit, 7> kBandwidthUnits = {
    {{"bit", 1}, {"kbit", 1e3}, {"mbit", 1e6}, {"gbit", 1e9}, {"kB/s", 8e3}, {"MB/s", 8e6}, {"GB/s", 8e9}}};
constexpr std::array<Unit, 6> kDurationUnits = {
    {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {"min", 60e9}, {"h", 3600e9}}};

// The shortest "number unit" that parses back to the same value; of several, the one with the smallest unit.
std::string shortest(double value, std::span<const Unit> units) {
  std::string best;
  for (const Unit& unit : units) {
    if (unit.name.empty()) continue;
    const double number = value / unit.factor;
    if (number * unit.factor != value) continue;
    const std::string text = fmt::format("{}{}", number, unit.name);
    if (best.empty() || text.size() < best.size()) best = text;
  }
  return best;
}

// Three significant digits, without an exponent.
std::string three_digits(double number) {
  const int decimals = number >= 99.95 ? 0 : number >= 9.995 ? 1 : 2;
  std::string text = fmt::format("{:.{}f}", number, decimals);
  if (decimals > 0) {
    text.erase(text.find_last_not_of('0') + 1);
    if (text.back() == '.') text.pop_back();
  }
  return text;
}

std::int64_t to_integer(double value, std::string_view text) {
  if (value >= static_cast<double>(std::numeric_limits<std::int64_t>::max())) {
    throw InputError("'{}' is too large", text);
  }
  return static_cast<std::int64_t>(std::llround(value));
}

}  // namespace

Bytes parse_bytes(std::string_view text) { return to_integer(parse(text, kByteUnits, "size"), text); }

std::string format_bytes(Bytes bytes) {
  const auto value = static_cast<double>(bytes);
  if (value >= kGiB) return fmt::format("{:.2f} GiB", value / kGiB);
  if (value >= kMiB) return fmt::format("{:.1f} MiB", value / kMiB);
  if (value >= kKiB) return fmt::format("{:.1f} KiB", value / kKiB);
  return fmt::format("{} B", bytes);
}

std::string write_bytes(Bytes bytes) { return shortest(static_cast<double>(bytes), kByteUnits); }

BitsPerSecond parse_bandwidth(std::string_view text) { return parse(text, kBandwidthUnits, "bandwidth"); }

std::string format_bandwidth(BitsPerSecond rate) {
  if (rate >= 999.5e6) return three_digits(rate / 1e9) + " gbit";
  if (rate >= 999.5e3) return three_digits(rate / 1e6) + " mbit";
  if (rate >= 999.5) return three_digits(rate / 1e3) + " kbit";
  return three_digits(rate) + " bit";
}

std::string write_bandwidth(BitsPerSecond rate) { return shortest(rate, kBandwidthUnits); }

std::chrono::nanoseconds parse_duration(std::string_view text) {
  return std::chrono::nanoseconds(to_integer(parse(text, kDurationUnits, "duration"), text));
}

std::string format_duration(std::chrono::nanoseconds duration) {
  const double seconds = std::chrono::duration<double>(duration).count();
  if (seconds < 999.5e-6) return three_digits(seconds * 1e6) + " us";
  if (seconds < 999.5e-3) return three_digits(seconds * 1e3) + " ms";
  if (seconds < 59.95) return three_digits(seconds) + " s";
  const auto whole = std::llround(seconds);
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole % 3600 / 60);
}

std::string write_duration(std::chrono::nanoseconds duration) {
  return shortest(static_cast<double>(duration.count()), kDurationUnits);
}

std::string format_count(double count) {
  if (count >= 1e9) return fmt::format("{:.2f} G", count / 1e9);
  if (count >= 1e6) return fmt::format("{:.2f} M", count / 1e6);
  if (count >= 1e4) return fmt::format("{:.1f} k", count / 1e3);
  return fmt::format("{:.0f}", count);
}

}  // namespace rookery
