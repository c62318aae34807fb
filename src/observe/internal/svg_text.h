#pragma once

#include <string>

namespace rookery::observe::internal {

struct Font {
  const char* classes;  // in the style sheet
  double size;          // in pixels
};

// The same in UTF-8 that XML allows, whatever `text` was: what is not becomes a replacement character or a space.
std::string printable(const std::string& text);

// printable(text) as the content of an XML element.
std::string escaped(const std::string& text);

// An estimate, as the reader's font is not known: a bit more than usual fonts need on average. Requires: UTF-8.
double width_of(const std::string& text, const Font& font);

// `text`, or as much of it as `room` pixels take, and an ellipsis. Requires: UTF-8.
std::string shortened(const std::string& text, const Font& font, double room);

// A coordinate: at most two decimals, "0.25", "120".
std::string coordinate(double value);

// A value for a person, with at most `digits` digits: "0.25", "120", "1.5e6". Requires: digits >= 6.
std::string short_decimal(double value, int digits);

}  // namespace rookery::observe::internal
