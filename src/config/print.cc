#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "config/internal/keys.h"

namespace rookery::config {
namespace {

using internal::Json;

constexpr std::size_t kLineWidth = 120;
constexpr std::size_t kLargestCommentColumn = 40;

// A string as TOML writes it. Requires: UTF-8.
std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (static_cast<unsigned char>(c) < ' ' || c == 127) {
      result += fmt::format("\\u{:04X}", static_cast<unsigned char>(c));
    } else {
      result += c;
    }
  }
  return result + '"';
}

std::string toml_literal(const Json& value) {
  if (value.is_string()) return quoted(value.get<std::string>());
  if (value.is_number_float()) {
    const std::string digits = fmt::format("{}", value.get<double>());
    return digits.find_first_of(".e") == std::string::npos ? digits + ".0" : digits;
  }
  if (value.is_array()) {
    std::string list;
    for (const Json& element : value) list += (list.empty() ? "" : ", ") + toml_literal(element);
    return "[" + list + "]";
  }
  return value.dump();
}

// The number of characters (code points) of text in UTF-8.
std::size_t columns_of(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

// The comment in lines of at most `width` columns.
std::vector<std::string> wrapped(std::string_view comment, std::size_t width) {
  std::vector<std::string> lines(1);
  while (!comment.empty()) {
    const std::size_t space = comment.find(' ');
    const std::string_view word = comment.substr(0, space);
    const bool fits = columns_of(lines.back()) + 1 + columns_of(word) <= width;
    if (!lines.back().empty() && !fits) lines.emplace_back();
    if (!lines.back().empty()) lines.back() += ' ';
    lines.back() += word;
    comment.remove_prefix(space == std::string_view::npos ? comment.size() : space + 1);
  }
  return lines;
}

// Prints settings as a TOML file.
class TomlPrinter {
 public:
  template <typename T, typename Rule>
  void key(std::string_view name, const T& setting, std::string_view comment, const Rule& rule) {
    lines_.push_back(
        {fmt::format("{} = {}", name, toml_literal(rule.write(setting))), fmt::format("{}{}", comment, rule.note())});
  }

  void section(std::string_view name, const auto& keys, std::string_view comment) {
    heading(fmt::format("[{}]", name), comment);
    internal::keys_of(keys, *this);
    flush("");
  }

  template <typename T>
  void list(std::string_view name, const std::vector<T>& list, std::string_view comment) {
    const std::string title = fmt::format("[[{}]]", name);
    for (const T& element : list) {
      heading(title, comment);
      internal::keys_of(element, *this);
      flush("");
    }
    if (!list.empty()) return;
    // An empty list shows what its elements could have, commented out.
    heading("# " + title, comment);
    const T example{};
    internal::keys_of(example, *this);
    flush("# ");
  }

  static std::string printed(const auto& document) {
    TomlPrinter printer;
    internal::keys_of(document, printer);
    printer.flush("");
    return std::move(printer.text_);
  }

 private:
  struct Line {
    std::string setting;
    std::string comment;
  };

  void heading(const std::string& title, std::string_view comment) {
    flush("");
    text_ += '\n' + title + '\n';
    if (!comment.empty()) text_ += fmt::format("# {}\n", comment);
  }

  // Writes the keys gathered so far, with their comments in one column.
  void flush(std::string_view prefix) {
    std::size_t column = 0;
    for (const Line& line : lines_) column = std::max(column, columns_of(line.setting) + 2);
    column = std::min(column, kLargestCommentColumn);
    for (const Line& line : lines_) {
      text_ += fmt::format("{}{}", prefix, line.setting);
      std::size_t at = columns_of(line.setting);
      for (const std::string& part : wrapped(line.comment, kLineWidth - prefix.size() - column - 2)) {
        if (at + 2 > column) {
          text_ += fmt::format("\n{}", prefix);
          at = 0;
        }
        text_ += fmt::format("{:{}}# {}", "", column - at, part);
        at = kLineWidth;
      }
      text_ += '\n';
    }
    lines_.clear();
  }

  std::string text_;
  std::vector<Line> lines_;
};

// Gathers settings in a JSON object.
struct JsonPrinter {
  Json object = Json::object();

  void key(const std::string& name, const auto& setting, std::string_view, const auto& rule) {
    object[name] = rule.write(setting);
  }
  void section(const std::string& name, const auto& keys, std::string_view) { object[name] = printed(keys); }
  void list(const std::string& name, const auto& elements, std::string_view) {
    Json& list = object[name] = Json::array();
    for (const auto& element : elements) list.push_back(printed(element));
  }

  static Json printed(const auto& keys) {
    JsonPrinter printer;
    internal::keys_of(keys, printer);
    return std::move(printer.object);
  }
};

}  // namespace

std::string to_toml(const Settings& settings) { return TomlPrinter::printed(settings); }

std::string to_toml(const DescribedSwarm& swarm) { return TomlPrinter::printed(swarm); }

std::string to_toml(const Scenario& scenario) { return TomlPrinter::printed(scenario); }

nlohmann::ordered_json to_json(const Settings& settings) { return JsonPrinter::printed(settings); }

}  // namespace rookery::config
