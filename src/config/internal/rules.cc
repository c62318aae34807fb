#include "config/internal/rules.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/suggest.h"

namespace rookery::config::internal {
namespace {

[[noreturn]] void wrong_type(const Value& value, std::string_view expected) {
  throw InputError("must be {}, not {}", expected, type_name(value));
}

// The text of a value, if it is some: in quotes, or an override that the key may take as it stands.
const std::string* text_of(const Value& value) {
  if (const auto* text = std::get_if<std::string>(&value.content)) return text;
  return value.bare ? &*value.bare : nullptr;
}

const std::string& text_of(const Value& value, std::string_view expected) {
  const std::string* text = text_of(value);
  if (text == nullptr) wrong_type(value, expected);
  return *text;
}

std::string range_text(const Real& real) {
  const std::string low = fmt::format("{} {}", real.with_low ? "at least" : "greater than", real.low);
  if (std::isinf(real.high)) return low;
  return fmt::format("{} and {} {}", low, real.with_high ? "at most" : "less than", real.high);
}

bool is_utf8(const std::string& text) {
  try {
    (void)Json(text).dump();  // refuses anything else
    return true;
  } catch (const Json::exception&) {
    return false;
  }
}

bool is_port(std::string_view text) {
  unsigned port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  return error == std::errc{} && end == text.data() + text.size() && port <= 65535;
}

bool is_file_name(std::string_view text) {
  const auto bad = [](unsigned char c) { return c < ' ' || c == '/' || c == 127; };
  return !text.empty() && text.size() <= 200 && text != "." && text != ".." &&
         std::none_of(text.begin(), text.end(), bad);
}

bool is_tokenizer(std::string_view text) {
  constexpr std::string_view kPrefix = "sentencepiece:";
  return text == "bytes" || (text.starts_with(kPrefix) && text.size() > kPrefix.size());
}

bool is_device(std::string_view text) {
  return text == "cpu" || text == "cuda" || (text.starts_with("cuda:") && is_port(text.substr(5)));
}

bool is_listen(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  return text == "off" || (colon != std::string_view::npos && colon > 0 && is_port(text.substr(colon + 1)));
}

// Calls a parser of base/units.h.
template <typename Parse>
auto with_unit(const Value& value, std::string_view expected, Parse parse) {
  const std::string& text = text_of(value, expected);
  try {
    return parse(text);
  } catch (const InputError& error) {
    throw InputError("must be {}: {}", expected, error.what());
  }
}

constexpr std::string_view kStagesForm = "a list of [begin, end] pairs such as [[0, 3], [3, 6]]";

// Requires that the stage begin at layer `begin`.
LayerRange read_stage(const Value& value, std::int64_t begin) {
  const auto* pair = std::get_if<Value::Array>(&value.content);
  if (pair == nullptr || pair->size() != 2) throw InputError("must be {}", kStagesForm);
  const Whole rule;
  const LayerRange stage{rule.read((*pair)[0]), rule.read((*pair)[1])};
  if (stage.begin != begin || stage.end <= stage.begin) {
    throw InputError("must cover the layers from 0 on without gaps, but [{}, {}] follows layer {}", stage.begin,
                     stage.end, begin);
  }
  return stage;
}

}  // namespace

const Text kAnyText{[](std::string_view) { return true; }, "a string"};
const Text kFileName{is_file_name, "a name that a directory can have"};
const Text kTokenizer{is_tokenizer, "\"bytes\" or \"sentencepiece:FILE\""};
const Text kDevice{is_device, "\"cpu\", \"cuda\" or \"cuda:N\""};
const Text kListen{is_listen, "\"HOST:PORT\" or \"off\""};

bool Flag::read(const Value& value) const {
  if (const auto* flag = std::get_if<bool>(&value.content)) return *flag;
  wrong_type(value, "true or false");
}

std::int64_t Whole::read(const Value& value) const {
  const auto* number = std::get_if<std::int64_t>(&value.content);
  if (number == nullptr) wrong_type(value, "a whole number");
  if (*number < least) throw InputError("must be at least {}, not {}", least, *number);
  if (*number > most) throw InputError("must be at most {}, not {}", most, *number);
  return *number;
}

double Real::read(const Value& value) const {
  double number = 0;
  if (const auto* real = std::get_if<double>(&value.content)) {
    number = *real;
  } else if (const auto* whole = std::get_if<std::int64_t>(&value.content)) {
    number = static_cast<double>(*whole);
  } else {
    wrong_type(value, "a number");
  }
  const bool inside = (with_low ? number >= low : number > low) && (with_high ? number <= high : number < high);
  if (!std::isfinite(number) || !inside) throw InputError("must be {}, not {}", range_text(*this), number);
  return number;
}

std::string Choice::read(const Value& value) const {
  const std::string& text = text_of(value, "a string");
  if (std::find(choices.begin(), choices.end(), text) == choices.end()) {
    throw InputError("must be one of {}, not '{}'{}", fmt::join(choices, ", "), text, did_you_mean(text, choices));
  }
  return text;
}

std::string Choice::note() const { return fmt::format(": {}", fmt::join(choices, ", ")); }

std::string Text::read(const Value& value) const {
  const std::string& text = text_of(value, "a string");
  if (!is_utf8(text)) throw InputError("must be text in UTF-8");
  if (!allowed(text)) throw InputError("must be {}, not '{}'", expected, text);
  return text;
}

Bytes Size::read(const Value& value) const {
  const Bytes bytes = with_unit(value, "a size such as \"512MiB\"", parse_bytes);
  if (bytes == 0) throw InputError("must be greater than 0");
  return bytes;
}

BitsPerSecond Bandwidth::read(const Value& value) const {
  const BitsPerSecond rate = with_unit(value, "a bandwidth such as \"100mbit\"", parse_bandwidth);
  if (rate == 0 && !with_zero) throw InputError("must be greater than 0");
  return rate;
}

std::chrono::nanoseconds Duration::read(const Value& value) const {
  const auto duration = with_unit(value, "a duration such as \"20ms\"", parse_duration);
  if (duration < least) throw InputError("must be at least {}", format_duration(least));
  return duration;
}

std::vector<LayerRange> Stages::read(const Value& value) const {
  const auto* list = std::get_if<Value::Array>(&value.content);
  if (list == nullptr) wrong_type(value, kStagesForm);
  if (list->empty()) throw InputError("must have at least one stage");
  std::vector<LayerRange> stages;
  for (const Value& stage : *list) stages.push_back(read_stage(stage, stages.empty() ? 0 : stages.back().end));
  return stages;
}

Json Stages::write(const std::vector<LayerRange>& stages) const {
  Json list = Json::array();
  for (const LayerRange& stage : stages) list.push_back({stage.begin, stage.end});
  return list;
}

Clusters ClusterSizes::read(const Value& value) const {
  const Whole rule{1, 100'000};
  const auto* list = std::get_if<Value::Array>(&value.content);
  if (list == nullptr) return {.count = rule.read(value), .sizes = {}};
  if (list->empty()) throw InputError("must have at least one cluster");
  Clusters clusters{.count = static_cast<std::int64_t>(list->size()), .sizes = {}};
  for (const Value& size : *list) clusters.sizes.push_back(rule.read(size));
  return clusters;
}

Json ClusterSizes::write(const Clusters& clusters) const {
  return clusters.sizes.empty() ? Json(clusters.count) : Json(clusters.sizes);
}

bool says(const Value& value, std::string_view word) {
  const std::string* text = text_of(value);
  return text != nullptr && *text == word;
}

}  // namespace rookery::config::internal
