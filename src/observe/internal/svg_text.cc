#include "observe/internal/svg_text.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace rookery::observe::internal {
namespace {

using Json = nlohmann::json;

constexpr const char* kEllipsis = "…";

// The width of the character that begins with `byte`, in units of the font's size. Later bytes of it have none.
double width_of(char byte) {
  const auto bits = static_cast<unsigned char>(byte);
  if ((bits & 0xC0) == 0x80) return 0;
  return bits >= 0xE0 ? 1 : 0.62;
}

// Requires: a decimal point.
std::string without_trailing_zeros(std::string decimals) {
  decimals.erase(decimals.find_last_not_of('0') + 1);
  if (decimals.back() == '.') decimals.pop_back();
  return decimals;
}

}  // namespace

std::string printable(const std::string& text) {
  const std::string valid = Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
  auto clean = Json::parse(valid).get<std::string>();
  std::ranges::replace_if(
      clean, [](unsigned char byte) { return byte < 0x20; }, ' ');
  // U+FFFE and U+FFFF, which are UTF-8 but not XML, become U+FFFD.
  for (std::size_t at = 0; (at = clean.find("\xEF\xBF", at)) != std::string::npos; at += 3) {
    if (static_cast<unsigned char>(clean[at + 2]) >= 0xBE) clean[at + 2] = '\xBD';
  }
  return clean;
}

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : printable(text)) {
    if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else {
      out += c;
    }
  }
  return out;
}

double width_of(const std::string& text, const Font& font) {
  double width = 0;
  for (const char byte : text) width += width_of(byte) * font.size;
  return width;
}

std::string shortened(const std::string& text, const Font& font, double room) {
  if (width_of(text, font) <= room) return text;
  double width = width_of(kEllipsis, font);
  std::size_t end = 0;
  while (end < text.size() && (width += width_of(text[end]) * font.size) <= room) ++end;
  return text.substr(0, end) + kEllipsis;
}

std::string coordinate(double value) { return without_trailing_zeros(fmt::format("{:.2f}", value)); }

std::string short_decimal(double value, int digits) {
  const double size = std::abs(value);
  if (size == 0 || (size >= 1e-4 && size < 1e6)) return fmt::format("{:.{}g}", value, digits);
  const std::string text = fmt::format("{:.{}e}", value, digits - 1);
  const std::size_t e = text.find('e');
  return fmt::format("{}e{}", without_trailing_zeros(text.substr(0, e)), std::stoi(text.substr(e + 1)));
}

}  // namespace rookery::observe::internal
