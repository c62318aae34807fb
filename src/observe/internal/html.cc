#include "observe/internal/html.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "base/units.h"
#include "observe/internal/svg_text.h"

namespace rookery::observe::internal {
namespace {

using Json = nlohmann::json;

// A number for people; below it all of its digits, if it has more.
std::string number_html(const Json& value, Unit unit) {
  constexpr std::size_t kShort = 7;
  const std::string exact = value.dump();
  if (unit == Unit::kNone && (value.is_number_integer() || exact.size() <= kShort)) {
    return fmt::format("<data value=\"{0}\">{0}</data>", exact);
  }
  return fmt::format("<data value=\"{0}\">{1}</data> <span class=\"exact\">{0}</span>", exact,
                     rounded(value.get<double>(), unit));
}

}  // namespace

std::string html_of(const std::string& text) {
  std::string out;
  for (const char c : escaped(text)) {
    if (c == '"') {
      out += "&quot;";
    } else if (c == '\'') {
      out += "&#39;";
    } else {
      out += c;
    }
  }
  return out;
}

std::string rounded(double number, Unit unit) {
  if (!std::isfinite(number)) return "not a number";
  constexpr double kMostSeconds = 9e9, kMostBytes = 9e18;  // that their formats know
  switch (unit) {
    case Unit::kBytes:
      if (std::abs(number) < kMostBytes) return format_bytes(static_cast<Bytes>(number));
      break;
    case Unit::kSeconds:
      if (number == 0) return "0 s";
      if (number > 0 && number < kMostSeconds) {
        return format_duration(
            std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(number)));
      }
      break;
    case Unit::kShare:
      return fmt::format("{:.1f} %", 100 * number);
    case Unit::kNone:
      break;
  }
  const double size = std::abs(number);
  if (size < 1e-4 || size >= 1e15) return fmt::format("{:.5g}", number);
  const int decimals = std::max(0, 4 - static_cast<int>(std::floor(std::log10(size))));  // so that columns look alike
  return fmt::format("{:.{}f}", number, decimals);
}

std::string value_html(const Json& value, Unit unit) {
  if (value.is_number() && std::isfinite(value.get<double>())) return number_html(value, unit);
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  if (value.is_string()) return html_of(value.get<std::string>());
  return value.is_structured() ? nothing_html() : "not a number";
}

std::string nothing_html() { return "<span class=\"nothing\">–</span>"; }

Table::Table(std::string caption, std::vector<Column> columns)
    : caption_(std::move(caption)), columns_(std::move(columns)) {}

void Table::add(const std::vector<std::string>& cells_html) {
  ROOKERY_CHECK(cells_html.size() == columns_.size(), "{} cells, {} columns", cells_html.size(), columns_.size());
  rows_html_ += "<tr>";
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    const char* end = i == 0 ? "th" : "td";
    const char* begin = i == 0 ? "th scope=\"row\"" : columns_[i].is_text ? "td class=\"text\"" : "td";
    rows_html_ += fmt::format("<{}>{}</{}>", begin, cells_html[i], end);
  }
  rows_html_ += "</tr>\n";
}

std::string Table::html() const {
  std::string heads;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    const bool is_text = i == 0 || columns_[i].is_text;
    heads += fmt::format("<th scope=\"col\"{}>{}</th>", is_text ? " class=\"text\"" : "", columns_[i].head_html);
  }
  return fmt::format(
      "<div class=\"wide\" role=\"region\" aria-label=\"{0}\" "
      "tabindex=\"0\">\n<table>\n<caption><span>{0}</span></caption>\n"
      "<thead>\n<tr>{1}</tr>\n</thead>\n<tbody>\n{2}</tbody>\n</table>\n</div>\n",
      html_of(caption_), heads, rows_html_);
}

std::string section_html(const std::string& id, const std::string& heading, const std::string& content_html) {
  return fmt::format("<section id=\"{}\">\n<h2>{}</h2>\n{}</section>\n", html_of(id), html_of(heading), content_html);
}

}  // namespace rookery::observe::internal
