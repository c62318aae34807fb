// Draws curves that a benchmark has measured: reads charts as JSON, writes one SVG.
//   build/plot <charts.json >picture.svg
//
//   [{"title": "…", "subtitle": "…", "x": {"label": "peers", "logarithmic": true}, "y": {"label": "ms"},
//     "curves": [{"name": "gossip", "points": [[8, 122], [16, 79]]}]}]
#include "observe/plot.h"

#include <cstdio>
#include <iostream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

using nlohmann::json;
using namespace rookery::observe;

namespace {

Axis axis_of(const json& given) {
  return {.label = given.at("label").get<std::string>(), .logarithmic = given.value("logarithmic", false)};
}

Chart chart_of(const json& given) {
  Chart chart{.title = given.at("title").get<std::string>(),
              .subtitle = given.value("subtitle", ""),
              .x = axis_of(given.at("x")),
              .y = axis_of(given.at("y"))};
  for (const json& curve : given.at("curves")) {
    chart.curves.push_back({.name = curve.at("name").get<std::string>(),
                            .points = curve.at("points").get<std::vector<std::pair<double, double>>>()});
  }
  return chart;
}

}  // namespace

int main() {
  try {
    std::vector<Chart> charts;
    for (const json& given : json::parse(std::cin)) charts.push_back(chart_of(given));
    fmt::print("{}", to_svg(charts));
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "plot: {}\n", error.what());
    return 1;
  }
}
