#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace rookery::observe {

// Curves as pictures, for people who read a report: SVG that needs nothing else, on light pages and on dark ones.
// Any text is fine, also from others: what XML does not allow is replaced, and what is too long is cut in the picture.

struct Curve {
  std::string name{};  // written at the right end of the line
  // (x, y), in order of x. A point that is not finite, or not positive on a logarithmic axis, is left out and breaks
  // the line; so is one beyond 1e200, or below 1e-200 on a logarithmic axis. Of more than 2000 points, 2000 are drawn,
  // evenly chosen, with the first and the last.
  std::vector<std::pair<double, double>> points{};
};

struct Axis {
  std::string label{};
  bool logarithmic = false;
  std::function<std::string(double)> format{};  // a value in words; without it, a short decimal number
};

// A vertical line, such as "this swarm". The x axis reaches it even if no curve does. Labels have three rows above the
// curves; one that finds no room there is left out.
struct Mark {
  double x = 0;
  std::string label{};
};

struct Chart {
  std::string title{};
  std::string subtitle{};
  Axis x{}, y{};
  std::vector<Curve> curves{};
  std::vector<Mark> marks{};
};

// One SVG document with all charts, `columns` of them beside each other. A chart without any point says "no data".
// The same charts give the same bytes. The document may be a file or a part of an HTML page.
//
// Requires: columns >= 1.
std::string to_svg(const std::vector<Chart>& charts, std::size_t columns = 2);

}  // namespace rookery::observe
