#include "observe/plot.h"

#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/format.h>

#include "base/error.h"
#include "observe/internal/panel.h"
#include "observe/internal/svg_text.h"

namespace rookery::observe {
namespace {

using namespace internal;

constexpr double kBelowPlot = 52;

// Each colour of a curve has a contrast of at least 4.5 to the ground. With any kind of colour blindness (simulated),
// no two are as close as the closest of Okabe and Ito's palette.
struct Theme {
  const char *ground, *text, *quiet, *grid;
  std::array<const char*, 8> curves;
};
constexpr Theme kLight = {
    .ground = "#ffffff",
    .text = "#1f2328",
    .quiet = "#59636e",
    .grid = "#dfe4ea",
    .curves = {"#541ea0", "#d24100", "#29616b", "#b545ae", "#4f7d69", "#59441f", "#233661", "#292929"}};
constexpr Theme kDark = {
    .ground = "#0d1117",
    .text = "#e6edf3",
    .quiet = "#9198a1",
    .grid = "#2b3138",
    .curves = {"#8b6ef2", "#d75f39", "#8ad9e7", "#a56998", "#b5feb6", "#dbcf3c", "#81aefa", "#a4a4a4"}};
constexpr std::array<const char*, 8> kDashes = {"none", "8 3",     "2 2",          "10 3 2 3",
                                                "16 4", "5 2 1 2", "10 3 2 3 2 3", "4 6"};

// Every rule names the picture's class, as the picture may be part of a page that has its own.
constexpr const char* kShapes = R"(.rookery-plot{font-family:system-ui,sans-serif}
.rookery-plot text{fill:currentColor}
.rookery-plot .title{font-weight:600}
.rookery-plot path{fill:none;stroke:currentColor}
.rookery-plot circle{fill:currentColor}
.rookery-plot .line{stroke-width:2;stroke-linejoin:round}
.rookery-plot .mark{stroke-dasharray:3 3}
.rookery-plot .leader{stroke-dasharray:1 2;opacity:.7}
)";

std::string colours_of(const Theme& theme) {
  std::string rules = fmt::format(
      ".rookery-plot{{color:{}}}\n.rookery-plot .ground{{fill:{}}}\n.rookery-plot .quiet{{color:{}}}\n"
      ".rookery-plot .grid{{stroke:{}}}\n",
      theme.text, theme.ground, theme.quiet, theme.grid);
  for (std::size_t i = 0; i < theme.curves.size(); ++i) {
    rules += fmt::format(".rookery-plot .c{}{{color:{}}}\n", i, theme.curves[i]);
  }
  return rules;
}

// What titles and labels of marks need, in all panels.
double height_above_plot(const std::vector<Panel>& panels) {
  std::size_t rows = 0;
  bool has_subtitle = false;
  for (const Panel& panel : panels) {
    for (const Note& note : panel.notes) rows = std::max(rows, note.row + 1);
    has_subtitle = has_subtitle || !panel.chart.subtitle.empty();
  }
  return kEdge + kLine * static_cast<double>((has_subtitle ? 2 : 1) + rows) + 2 * kGap;
}

struct Place {
  double x, y;         // y is that of the base line
  const char* anchor;  // what of the text is at x: "start", "middle" or "end"
  double room = kPanelWidth - 2 * kEdge;
};

std::string text_at(const Place& place, const Font& font, const std::string& text) {
  if (text.empty()) return "";
  return fmt::format("<text class=\"{}\" x=\"{}\" y=\"{}\" font-size=\"{}\" text-anchor=\"{}\">{}</text>\n",
                     font.classes, coordinate(place.x), coordinate(place.y), font.size, place.anchor,
                     escaped(shortened(printable(text), font, place.room)));
}

std::string path(std::string_view classes, std::string_view data) {
  return data.empty() ? "" : fmt::format("<path class=\"{}\" d=\"{}\"/>\n", classes, data);
}

std::string headings(const Panel& panel, double height_above) {
  const Chart& chart = panel.chart;
  const Scale& x = panel.x;
  std::string out = text_at({kEdge, kEdge + kLine - kGap - height_above, "start"}, kTitle, chart.title);
  out += text_at({kEdge, kEdge + 2 * kLine - kGap / 2 - height_above, "start"}, kSubtitle, chart.subtitle);
  out += text_at({(x.begin + x.end) / 2, panel.plot_height + 2 * kLine + kGap, "middle", x.end - x.begin}, kLabel,
                 chart.x.label);
  if (chart.y.label.empty()) return out;
  return out + fmt::format("<g transform=\"translate({} {}) rotate(-90)\">\n{}</g>\n", coordinate(kEdge + kGap),
                           coordinate(panel.plot_height / 2),
                           text_at({0, 0, "middle", panel.plot_height}, kLabel, chart.y.label));
}

std::string axes(const Panel& panel) {
  const std::string left = coordinate(panel.x.begin), right = coordinate(panel.x.end);
  const std::string bottom = coordinate(panel.plot_height);
  std::string grid, labels;
  for (const Tick& tick : panel.x_ticks) {
    const double at = panel.x(tick.value);
    grid += fmt::format("M{} 0V{}", coordinate(at), bottom);
    labels += text_at({at, panel.plot_height + kLine, "middle"}, kTick, tick.label);
  }
  for (const Tick& tick : panel.y_ticks) {
    const double at = panel.y(tick.value);
    grid += fmt::format("M{} {}H{}", left, coordinate(at), right);
    labels += text_at({panel.x.begin - kGap, at + 4, "end"}, kTick, tick.label);
  }
  return path("grid", grid) + path("axis quiet", fmt::format("M{} 0V{}H{}", left, bottom, right)) + labels;
}

std::string marks(const Panel& panel) {
  std::string lines, labels;
  for (const double mark : panel.marks) {
    lines += fmt::format("M{} 0V{}", coordinate(panel.x(mark)), coordinate(panel.plot_height));
  }
  for (const Note& note : panel.notes) {
    labels += text_at({note.middle, -kGap - kLine * static_cast<double>(note.row), "middle"}, kNote, note.label);
  }
  return path("mark quiet", lines) + labels;
}

// The line, and a dot for each spot that is not connected to any.
std::string stroke(const Panel& panel, const std::vector<Spot>& spots, const char* dashes) {
  std::string data, dots;
  for (auto first = spots.begin(); first != spots.end();) {
    const auto last = std::find_if(first, spots.end(), [&](const Spot& spot) { return spot.run != first->run; });
    for (auto spot = first; spot != last; ++spot) {
      const std::string x = coordinate(panel.x(spot->x)), y = coordinate(panel.y(spot->y));
      if (last - first == 1) {
        dots += fmt::format("<circle cx=\"{}\" cy=\"{}\" r=\"3\"/>\n", x, y);
      } else {
        data += fmt::format("{}{} {}", spot == first ? 'M' : 'L', x, y);
      }
    }
    first = last;
  }
  if (data.empty()) return dots;
  return fmt::format("<path class=\"line\" stroke-dasharray=\"{}\" d=\"{}\"/>\n", dashes, data) + dots;
}

std::string name_of(const Panel& panel, const Line& line) {
  if (line.name.empty()) return "";
  const Spot& last = line.spots.back();
  const std::string leader = fmt::format("M{} {}L{} {}", coordinate(panel.x(last.x)), coordinate(panel.y(last.y)),
                                         coordinate(panel.x.end + kLeader - 2), coordinate(line.name_at));
  return fmt::format("<title>{}</title>\n", escaped(line.name)) + path("leader", leader) +
         text_at({panel.x.end + kLeader, line.name_at + 4, "start", kWidestName}, kName, line.name);
}

std::string curves(const Panel& panel) {
  constexpr std::size_t kColours = kLight.curves.size();
  std::string out;
  for (std::size_t i = 0; i < panel.lines.size(); ++i) {
    const Line& line = panel.lines[i];
    if (line.spots.empty()) continue;
    const char* dashes = kDashes[(i + i / kColours) % kDashes.size()];  // other ones when the colours come again
    out += fmt::format("<g class=\"c{}\">\n{}{}</g>\n", i % kColours, name_of(panel, line),
                       stroke(panel, line.spots, dashes));
  }
  return out;
}

std::string no_data(const Panel& panel) {
  return text_at({(panel.x.begin + panel.x.end) / 2, panel.plot_height / 2, "middle"}, kLabel, "no data");
}

std::string drawn(const Panel& panel, double height_above) {
  return headings(panel, height_above) + axes(panel) +
         (panel.is_empty() ? no_data(panel) : marks(panel) + curves(panel));
}

std::string title_of(const Chart& chart) { return chart.title.empty() ? "Curves" : chart.title; }

// What the chart shows, for those who hear it.
std::string described(const Panel& panel) {
  const Axis &x = panel.chart.x, &y = panel.chart.y;
  std::string out = title_of(panel.chart);
  if (!x.label.empty() && !y.label.empty()) out += fmt::format(": {} over {}", y.label, x.label);
  out += panel.is_empty() ? ": no data." : ".";
  for (const auto& [name, spots, name_at] : panel.lines) {
    if (spots.empty()) continue;
    const Spot &first = spots.front(), &last = spots.back();
    out += fmt::format(" {}: {} at {}, {} at {}.", name.empty() ? "a curve" : name, in_words(y, first.y, 6),
                       in_words(x, first.x, 6), in_words(y, last.y, 6), in_words(x, last.x, 6));
  }
  return out;
}

}  // namespace

std::string to_svg(const std::vector<Chart>& charts, std::size_t columns) {
  ROOKERY_CHECK(columns >= 1);
  if (charts.empty()) return to_svg(std::vector<Chart>(1), columns);
  columns = std::min(columns, charts.size());
  const std::size_t rows = (charts.size() + columns - 1) / columns;
  const std::vector<Panel> panels = panels_of(charts);
  const double above = height_above_plot(panels), panel_height = above + panels.front().plot_height + kBelowPlot;

  std::string titles, descriptions, pictures;
  for (std::size_t i = 0; i < charts.size(); ++i) {
    titles += (i == 0 ? "" : "; ") + title_of(charts[i]);
    descriptions += (i == 0 ? "" : "\n") + escaped(described(panels[i]));
    const std::size_t row = i / columns, column = i % columns;
    pictures += fmt::format("<g class=\"chart\" transform=\"translate({} {})\">\n{}</g>\n",
                            coordinate(kPanelWidth * static_cast<double>(column)),
                            coordinate(panel_height * static_cast<double>(row) + above), drawn(panels[i], above));
  }
  const std::string width = coordinate(kPanelWidth * static_cast<double>(columns));
  const std::string height = coordinate(panel_height * static_cast<double>(rows));
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"rookery-plot\" role=\"img\" width=\"{0}\" height=\"{1}\" "
      "viewBox=\"0 0 {0} {1}\">\n<title>{2}</title>\n<desc>{3}</desc>\n"
      "<style>\n{4}{5}@media (prefers-color-scheme: dark) {{\n{6}}}\n</style>\n"
      "<rect class=\"ground\" width=\"{0}\" height=\"{1}\"/>\n{7}</svg>\n",
      width, height, escaped(titles), descriptions, kShapes, colours_of(kLight), colours_of(kDark), pictures);
}

}  // namespace rookery::observe
