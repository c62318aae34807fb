#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace rookery::config::internal {

// A TOML value, and where it was written: errors name the place. Keeps toml++, which is slow to compile, in one file.
struct Value {
  using Array = std::vector<Value>;
  using Table = std::vector<std::pair<std::string, Value>>;  // in the order of the file
  struct Date {};                                            // no setting is one

  std::variant<bool, std::int64_t, double, std::string, Array, Table, Date> content;
  std::string place;                // "run.toml:7" or "--set"
  std::optional<std::string> bare;  // in overrides: the text itself, which a key that takes text may use
};

// "a whole number", "a string", … for error messages.
std::string_view type_name(const Value& value);

// The table that `text` is. Throws InputError naming `file` and the line.
Value parse_document(std::string_view text, const std::string& file);

// The value of an override, as TOML or else as bare text. Throws InputError on an unfinished quotation.
Value parse_override(std::string_view text);

}  // namespace rookery::config::internal
