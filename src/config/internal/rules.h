#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/units.h"
#include "config/internal/document.h"
#include "config/settings.h"

// How a setting is written in a file, and what is allowed. A rule for values of type T has
//   T read(const Value&) const      throws InputError with a message that follows the key: "must be at least 1, not 0";
//   Json write(const T&) const      what read() takes back; numbers with a unit are text;
//   std::string note() const        what to append to the comment about possible values: ": a, b", ", or "auto"", "".
namespace rookery::config::internal {

using Json = nlohmann::ordered_json;

struct Flag {
  bool read(const Value& value) const;
  Json write(bool flag) const { return flag; }
  std::string note() const { return ""; }
};

struct Whole {
  std::int64_t least = 0;
  std::int64_t most = 1'000'000'000'000;

  std::int64_t read(const Value& value) const;
  Json write(std::int64_t number) const { return number; }
  std::string note() const { return ""; }
};

// Finite, from `low` to `high`; without the ends themselves where `with_…` is false.
struct Real {
  double low = 0;
  double high = std::numeric_limits<double>::infinity();
  bool with_low = true;
  bool with_high = true;

  double read(const Value& value) const;
  Json write(double number) const { return number; }
  std::string note() const { return ""; }
};
inline constexpr Real kNotNegative{};
inline constexpr Real kPositive{.with_low = false};
inline constexpr Real kShare{.high = 1};
inline constexpr Real kBelowOne{.high = 1, .with_high = false};

struct Choice {
  std::vector<std::string> choices;

  std::string read(const Value& value) const;
  Json write(const std::string& text) const { return text; }
  std::string note() const;
};

// Text in UTF-8 for which `allowed` holds; `expected` says in words what that means.
struct Text {
  bool (*allowed)(std::string_view);
  std::string_view expected;

  std::string read(const Value& value) const;
  Json write(const std::string& text) const { return text; }
  std::string note() const { return ""; }
};
extern const Text kAnyText, kFileName, kTokenizer, kDevice, kListen;

struct Size {
  Bytes read(const Value& value) const;
  Json write(Bytes bytes) const { return write_bytes(bytes); }
  std::string note() const { return ""; }
};

struct Bandwidth {
  bool with_zero = false;

  BitsPerSecond read(const Value& value) const;
  Json write(BitsPerSecond rate) const { return write_bandwidth(rate); }
  std::string note() const { return ""; }
};

struct Duration {
  std::chrono::nanoseconds least{0};

  std::chrono::nanoseconds read(const Value& value) const;
  Json write(std::chrono::nanoseconds duration) const { return write_duration(duration); }
  std::string note() const { return ""; }
};

// A list of [begin, end] pairs that cover the layers from 0 on without gaps.
struct Stages {
  std::vector<LayerRange> read(const Value& value) const;
  Json write(const std::vector<LayerRange>& stages) const;
  std::string note() const { return ""; }
};

// How many clusters there are, or how many peers each of them has.
struct ClusterSizes {
  Clusters read(const Value& value) const;
  Json write(const Clusters& clusters) const;
  std::string note() const { return ""; }
};

// True if the value is text, with or without quotes, that says `word`.
bool says(const Value& value, std::string_view word);

// A word such as "auto", for no value, or what `rule` allows.
template <typename Rule>
struct Or {
  std::string word;
  Rule rule{};
  using Optional = std::optional<decltype(std::declval<Rule>().read(std::declval<Value>()))>;

  Optional read(const Value& value) const {
    if (says(value, word)) return std::nullopt;
    try {
      return rule.read(value);
    } catch (const InputError& error) {
      throw InputError("{} (or \"{}\")", error.what(), word);
    }
  }
  Json write(const Optional& value) const { return value ? rule.write(*value) : Json(word); }
  std::string note() const { return fmt::format("{}, or \"{}\"", rule.note(), word); }
};

}  // namespace rookery::config::internal
