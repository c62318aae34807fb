#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "observe/report.h"

namespace rookery::observe {
namespace {

constexpr std::size_t kMostMarks = 12;  // more would hide the curves
constexpr std::size_t kMostRates = 20;  // of a curve: means over so many parts of a run
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

using Quantity = Series RunFiles::*;

// What a chart has on its x axis.
struct Course {
  const char* by;     // in a title
  const char* label;  // of the axis
  double (*of)(const Point& point);
  bool is_time = false;
};
constexpr Course kByStep = {"by step", "step", [](const Point& p) { return static_cast<double>(p.step); }};
constexpr Course kByTime = {"by time", "seconds", [](const Point& p) { return p.seconds; }, true};
constexpr Course kBySamples = {"by samples", "samples", [](const Point& p) { return p.samples; }};

Curve curve_of(const std::string& name, const std::vector<Point>& points, const Course& course) {
  Curve curve{.name = name};
  for (const Point& point : points) curve.points.emplace_back(course.of(point), point.value);
  return curve;
}

// Tokens per second, in the mean over parts of the run: single steps differ too much to show anything.
std::vector<Point> rates_of(const std::vector<Point>& tokens) {
  std::vector<Point> rates;
  if (tokens.empty()) return rates;
  Point before = tokens.front().step == 1 ? Point{} : tokens.front();
  const std::size_t parts = std::min(kMostRates, tokens.size());
  for (std::size_t part = 1; part <= parts; ++part) {
    const Point& end = tokens[part * tokens.size() / parts - 1];
    const double seconds = end.seconds - before.seconds;
    const double rate = seconds > 0 ? (end.value - before.value) / seconds : kNan;
    if (end.step > before.step) rates.push_back({end.step, end.seconds, end.samples, rate});
    before = end;
  }
  return rates;
}

// The words of a chart.
struct Words {
  const char *title, *subtitle, *y;
  bool has_courses = false;  // more charts than one, by different courses
};

Chart chart_of(const Words& words, const Course& course) {
  return {.title = words.has_courses ? fmt::format("{} {}", words.title, course.by) : words.title,
          .subtitle = words.subtitle,
          .x = {.label = course.label},
          .y = {.label = words.y}};
}

// A curve of each run.
Chart compared(const Report& report, Quantity quantity, const Words& words, const Course& course) {
  Chart chart = chart_of(words, course);
  for (const ReportedRun& run : report.runs) {
    chart.curves.push_back(curve_of(run.name, (run.files.*quantity).points(), course));
  }
  return chart;
}

std::vector<Mark> marks_of(const Report& report) {
  std::vector<Mark> marks;
  for (const ReportedRun& run : report.runs) {
    for (const Incident& incident : run.files.incidents) {
      if (!is_failure(incident.event)) continue;
      std::string label = incident.peer.empty() ? incident.event : incident.event + " " + incident.peer;
      if (report.runs.size() > 1) label = fmt::format("{}: {}", run.name, label);
      marks.push_back({.x = incident.seconds, .label = std::move(label)});
    }
  }
  return marks;
}

// Marks what failed, unless that is too much to be seen.
void add_marks(Chart& chart, std::vector<Mark> marks) {
  if (marks.empty()) return;
  const bool has_room = marks.size() <= kMostMarks;
  chart.subtitle += has_room ? "; dashed lines are failures" : "; too many failures to mark";
  if (has_room) chart.marks = std::move(marks);
}

constexpr Words kLosses = {"Loss", "of steps, and on held-out samples", "loss", true};
constexpr Words kTraining = {"Training loss", "of each step, mean over clusters", "loss", true};
constexpr Words kEvaluation = {"Evaluation loss", "on held-out samples", "loss", true};
constexpr Words kAccuracy = {"Evaluation accuracy", "on held-out samples", "share"};
constexpr Words kStepTime = {"Step time", "of the slowest peer, logarithmic", "seconds"};
constexpr Words kRate = {"Tokens per second", "in the mean over each twentieth of the run", "tokens/s"};
constexpr Words kDistance = {"Distance of the copies", "from their average, at evaluations", "distance"};
constexpr Words kDrift = {"Drift of the copies", "from what was agreed last, in the mean", "distance"};

// Several runs have a chart for each quantity; of a run alone, both losses are in one.
void add_losses(std::vector<Chart>& charts, const Report& report) {
  const bool alone = report.runs.size() == 1;
  for (const Course& course : {kByStep, kByTime, kBySamples}) {
    Chart& chart = charts.emplace_back(compared(report, &RunFiles::loss, alone ? kLosses : kTraining, course));
    if (course.is_time) add_marks(chart, marks_of(report));
    if (alone) {
      chart.curves.front().name = "training";
      chart.curves.push_back(curve_of("evaluation", report.runs.front().files.eval_loss.points(), course));
    } else {
      charts.push_back(compared(report, &RunFiles::eval_loss, kEvaluation, course));
    }
  }
}

bool has_points(const Chart& chart) {
  return std::ranges::any_of(chart.curves, [](const Curve& curve) {
    return std::ranges::any_of(curve.points, [](const auto& point) { return std::isfinite(point.second); });
  });
}

}  // namespace

std::vector<Chart> charts_of(const Report& report) {
  std::vector<Chart> charts;
  if (report.runs.empty()) return charts;
  add_losses(charts, report);
  charts.push_back(compared(report, &RunFiles::eval_accuracy, kAccuracy, kByStep));
  charts.push_back(compared(report, &RunFiles::step_seconds, kStepTime, kByStep));
  charts.back().y.logarithmic = true;
  Chart& rates = charts.emplace_back(chart_of(kRate, kByStep));
  for (const ReportedRun& run : report.runs) {
    rates.curves.push_back(curve_of(run.name, rates_of(run.files.tokens.points()), kByStep));
  }
  charts.push_back(compared(report, &RunFiles::consensus_distance, kDistance, kByStep));
  charts.push_back(compared(report, &RunFiles::drift, kDrift, kByStep));
  std::erase_if(charts, [](const Chart& chart) { return !has_points(chart); });
  return charts;
}

}  // namespace rookery::observe
