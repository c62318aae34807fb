#include "observe/internal/panel.h"

#include <algorithm>
#include <array>

namespace rookery::observe::internal {
namespace {

constexpr double kSmallestPlotHeight = 220, kSmallestMargin = 44, kNameDistance = 14, kWidestTick = 72;
constexpr std::size_t kMostTicks = 6, kMostMarkRows = 3, kMostPoints = 2000;
constexpr double kLargest = 1e200;

bool can_show(const Axis& axis, double value) {
  return axis.logarithmic ? value >= 1 / kLargest && value <= kLargest : std::abs(value) <= kLargest;
}

std::vector<Spot> spots_of(const Curve& curve, const Chart& chart) {
  std::vector<Spot> spots;
  std::size_t run = 0;
  for (const auto& [x, y] : curve.points) {
    if (can_show(chart.x, x) && can_show(chart.y, y)) {
      spots.push_back({x, y, run});
    } else {
      ++run;
    }
  }
  return spots;
}

std::vector<Spot> thinned(const std::vector<Spot>& spots) {
  if (spots.size() <= kMostPoints) return spots;
  std::vector<Spot> some;
  for (std::size_t i = 0; i < kMostPoints; ++i) some.push_back(spots[i * (spots.size() - 1) / (kMostPoints - 1)]);
  return some;
}

// `range`, or one around it if that is too short for ticks.
Range widened(Range range, bool logarithmic) {
  constexpr double kSmallest = 1e-290, kSmallestShare = 2e-9;
  const double size = std::max(std::abs(range.low), std::abs(range.high));
  // A difference of logarithms is a share of the value.
  const double shortest = logarithmic ? kSmallestShare : std::max(kSmallest, kSmallestShare * size);
  if (range.length() > shortest) return range;
  const double more = logarithmic || size <= kSmallest ? 0.5 : size / 2;
  return {range.low - more, range.high + more};
}

// Air above and below the curves, but nothing below 0 if no value is.
Range with_air(Range range, bool logarithmic) {
  const double air = 0.05 * range.length(), low = range.low - air;
  return {!logarithmic && range.low >= 0 ? std::max(0.0, low) : low, range.high + air};
}

void set_ranges(Panel& panel) {
  for (const Line& line : panel.lines) {
    for (const Spot& spot : line.spots) {
      panel.x.range.include(panel.x.measure(spot.x));
      panel.y.range.include(panel.y.measure(spot.y));
    }
  }
  if (panel.x.range.is_empty()) return;
  for (const double mark : panel.marks) panel.x.range.include(panel.x.measure(mark));
  panel.x.range = widened(panel.x.range, panel.x.logarithmic);
  panel.y.range = with_air(widened(panel.y.range, panel.y.logarithmic), panel.y.logarithmic);
}

double width_of_label(const Tick& tick) { return width_of(tick.label, kTick) + kGap; }
double height_of_label(const Tick&) { return kTick.size + kGap; }

// As many ticks as labels allow that neither overlap nor say the same. `extent` is what a label takes of the axis.
std::vector<Tick> ticks_of(const Axis& axis, const Scale& scale, double (*extent)(const Tick&)) {
  if (scale.range.is_empty()) return {};
  const auto collide = [&](const Tick& a, const Tick& b) {
    return a.label == b.label || std::abs(scale(b.value) - scale(a.value)) < (extent(a) + extent(b)) / 2;
  };
  const auto values_of = axis.logarithmic ? logarithmic_ticks : linear_ticks;
  std::vector<Tick> ticks;
  for (std::size_t most = kMostTicks; most >= 2; --most) {
    ticks.clear();
    for (const double value : values_of(scale.range, most)) {
      ticks.push_back({value, shortened(in_words(axis, value, 11), kTick, kWidestTick)});
    }
    if (std::ranges::adjacent_find(ticks, collide) == ticks.end()) return ticks;
  }
  ticks.erase(ticks.begin() + 1, ticks.end());
  return ticks;
}

std::vector<Note> notes_of(const Chart& chart, const Scale& x) {
  if (x.range.is_empty()) return {};
  std::array<std::vector<Range>, kMostMarkRows> rows;  // what is taken of each
  std::vector<Note> notes;
  for (const Mark& mark : chart.marks) {
    if (mark.label.empty() || !can_show(chart.x, mark.x)) continue;
    const std::string label = shortened(printable(mark.label), kNote, x.end - x.begin - kGap);
    const double half = (width_of(label, kNote) + kGap) / 2;
    const double middle = std::clamp(x(mark.x), x.begin + half, x.end - half);
    const auto is_free = [&](const std::vector<Range>& row) {
      return std::ranges::none_of(
          row, [&](const Range& taken) { return middle - half < taken.high && taken.low < middle + half; });
    };
    const auto row = std::ranges::find_if(rows, is_free);
    if (row == rows.end()) continue;
    row->push_back({middle - half, middle + half});
    notes.push_back({label, middle, static_cast<std::size_t>(row - rows.begin())});
  }
  return notes;
}

// The places nearest to the wanted ones that are at least `distance` apart and within `range`.
// Requires: `wanted` is in order; the range has room for them.
std::vector<double> pushed_apart(const std::vector<double>& wanted, double distance, Range range) {
  // Relative to the first possible place of each, they only need to be in order. Where they are not, they form a block
  // that stands where its members want to be on average.
  struct Block {
    double sum;
    std::size_t count;
    double place() const { return sum / static_cast<double>(count); }
  };
  std::vector<Block> blocks;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    Block block{wanted[i] - distance * static_cast<double>(i), 1};
    for (; !blocks.empty() && blocks.back().place() > block.place(); blocks.pop_back()) {
      block.sum += blocks.back().sum;
      block.count += blocks.back().count;
    }
    blocks.push_back(block);
  }
  const double last = range.high - distance * (static_cast<double>(wanted.size()) - 1);
  std::vector<double> places;
  for (const Block& block : blocks) {
    for (std::size_t i = 0; i < block.count; ++i) {
      places.push_back(std::clamp(block.place(), range.low, last) + distance * static_cast<double>(places.size()));
    }
  }
  return places;
}

void place_names(Panel& panel) {
  const auto end_of = [&](const Line* line) { return panel.y(line->spots.back().y); };
  std::vector<Line*> lines;
  for (Line& line : panel.lines) {
    if (!line.name.empty() && !line.spots.empty()) lines.push_back(&line);
  }
  std::ranges::stable_sort(lines, {}, end_of);
  std::vector<double> ends(lines.size());
  std::ranges::transform(lines, ends.begin(), end_of);
  const std::vector<double> places = pushed_apart(ends, kNameDistance, {0, panel.plot_height});
  for (std::size_t i = 0; i < lines.size(); ++i) lines[i]->name_at = places[i];
}

Panel panel_of(const Chart& chart, double plot_height) {
  Panel panel{chart, plot_height};
  for (const Curve& curve : chart.curves) panel.lines.push_back({printable(curve.name), spots_of(curve, chart)});
  for (const Mark& mark : chart.marks) {
    if (can_show(chart.x, mark.x)) panel.marks.push_back(mark.x);
  }
  panel.x.logarithmic = chart.x.logarithmic;
  panel.y.logarithmic = chart.y.logarithmic;
  set_ranges(panel);
  for (Line& line : panel.lines) line.spots = thinned(line.spots);

  panel.y.begin = plot_height;
  panel.y_ticks = ticks_of(chart.y, panel.y, height_of_label);
  double widest_tick = 0, widest_name = 0;
  for (const Tick& tick : panel.y_ticks) widest_tick = std::max(widest_tick, width_of(tick.label, kTick));
  for (const Line& line : panel.lines) widest_name = std::max(widest_name, width_of(line.name, kName));

  panel.x.begin = std::max(kSmallestMargin, kEdge + kLine + widest_tick + kGap);
  panel.x.end = kPanelWidth - std::max(kSmallestMargin, kLeader + std::min(widest_name, kWidestName) + kEdge);
  panel.x_ticks = ticks_of(chart.x, panel.x, width_of_label);
  place_names(panel);
  panel.notes = notes_of(chart, panel.x);
  return panel;
}

}  // namespace

std::vector<Panel> panels_of(const std::vector<Chart>& charts) {
  std::size_t curves = 0;
  for (const Chart& chart : charts) curves = std::max(curves, chart.curves.size());
  // Each curve has room for its name.
  const double plot_height = std::max(kSmallestPlotHeight, kNameDistance * static_cast<double>(curves));
  std::vector<Panel> panels;
  panels.reserve(charts.size());
  for (const Chart& chart : charts) panels.push_back(panel_of(chart, plot_height));
  return panels;
}

std::string in_words(const Axis& axis, double value, int digits) {
  return axis.format ? printable(axis.format(value)) : short_decimal(value, digits);
}

}  // namespace rookery::observe::internal
