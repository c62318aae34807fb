#include "config/internal/document.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <toml++/toml.h>

#include "base/error.h"

namespace rookery::config::internal {
namespace {

std::string place_of(const std::string& file, const toml::source_region& region) {
  return region.begin.line > 0 ? fmt::format("{}:{}", file, region.begin.line) : file;
}

Value converted(const toml::node& node, const std::string& file);

Value::Array converted(const toml::array& array, const std::string& file) {
  Value::Array values;
  for (const toml::node& node : array) values.push_back(converted(node, file));
  return values;
}

Value::Table converted(const toml::table& table, const std::string& file) {
  // toml++ sorts by name; the first mistake in the file should be the first reported.
  std::vector<const toml::key*> keys;
  for (const auto& [key, node] : table) keys.push_back(&key);
  std::stable_sort(keys.begin(), keys.end(),
                   [](const auto* a, const auto* b) { return a->source().begin < b->source().begin; });
  Value::Table entries;
  for (const toml::key* key : keys) {
    Value value = converted(*table.get(key->str()), file);
    value.place = place_of(file, key->source());
    entries.emplace_back(key->str(), std::move(value));
  }
  return entries;
}

Value converted(const toml::node& node, const std::string& file) {
  Value value{Value::Date{}, place_of(file, node.source()), {}};
  if (const auto* flag = node.as_boolean()) value.content = flag->get();
  if (const auto* whole = node.as_integer()) value.content = whole->get();
  if (const auto* real = node.as_floating_point()) value.content = real->get();
  if (const auto* text = node.as_string()) value.content = text->get();
  if (const auto* array = node.as_array()) value.content = converted(*array, file);
  if (const auto* table = node.as_table()) value.content = converted(*table, file);
  return value;
}

}  // namespace

std::string_view type_name(const Value& value) {
  static constexpr std::array<std::string_view, 7> kNames = {
      "true or false", "a whole number", "a number with a fraction", "a string", "a list", "a table", "a date or time"};
  static_assert(kNames.size() == std::variant_size_v<decltype(Value::content)>);
  return kNames[value.content.index()];
}

Value parse_document(std::string_view text, const std::string& file) {
  try {
    const toml::table table = toml::parse(text, file);
    return {converted(table, file), file, {}};
  } catch (const toml::parse_error& error) {
    throw InputError("{}: is not valid TOML: {}", place_of(file, error.source()), error.description());
  }
}

Value parse_override(std::string_view text) {
  Value value{std::string(text), "--set", std::string(text)};
  try {
    const toml::table table = toml::parse(fmt::format("value = {}", text));
    // Line breaks in the text could have brought in more keys: then it is no TOML value, but text.
    if (table.size() == 1) value.content = converted(*table.get("value"), "--set").content;
  } catch (const toml::parse_error&) {
    if (text.starts_with('"') || text.starts_with('\'')) throw InputError("--set: {} is not a TOML string", text);
  }
  return value;
}

}  // namespace rookery::config::internal
