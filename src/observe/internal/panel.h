#pragma once

#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "observe/internal/svg_text.h"
#include "observe/internal/ticks.h"
#include "observe/plot.h"

// Where everything in a picture of charts stands, before it is drawn. Lengths are pixels. A panel is the place of a
// chart with all its texts; the plot is what lies between the axes. In a panel, y is 0 at the upper end of the plot.
namespace rookery::observe::internal {

constexpr double kPanelWidth = 480, kEdge = 16, kLine = 16, kGap = 6, kLeader = 12, kWidestName = 150;

constexpr Font kTitle{"title", 15}, kSubtitle{"subtitle quiet", 12}, kLabel{"label quiet", 12}, kTick{"tick quiet", 11},
    kName{"name", 12}, kNote{"note quiet", 11};

// Where the values of an axis are.
struct Scale {
  bool logarithmic = false;
  Range range{};  // of the values, or of their logarithms to base 10
  double begin = 0, end = 0;

  double measure(double value) const { return logarithmic ? std::log10(value) : value; }
  double operator()(double value) const {
    return begin + (end - begin) * ((measure(value) - range.low) / range.length());
  }
};

struct Tick {
  double value;
  std::string label;
};

struct Spot {
  double x, y;      // values
  std::size_t run;  // spots of the same run are connected
};

// What is drawn of a curve.
struct Line {
  std::string name;
  std::vector<Spot> spots;
  double name_at = 0;  // the y of the name; only if there are a name and a spot
};

// The label of a mark. Row 0 is directly above the plot.
struct Note {
  std::string label;
  double middle;
  std::size_t row;
};

struct Panel {
  const Chart& chart;
  double plot_height;
  std::vector<Line> lines{};  // one for each curve
  std::vector<double> marks{};
  Scale x{}, y{};
  std::vector<Tick> x_ticks{}, y_ticks{};
  std::vector<Note> notes{};

  bool is_empty() const { return x.range.is_empty(); }  // then there are neither ticks nor notes
};

// Plots of the same height, so that the axes of charts beside each other are on one line. The charts must outlive the
// panels.
std::vector<Panel> panels_of(const std::vector<Chart>& charts);

// What `axis` calls a value.
std::string in_words(const Axis& axis, double value, int digits);

}  // namespace rookery::observe::internal
