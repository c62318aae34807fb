#include "observe/report.h"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "observe/internal/html.h"
#include "observe/internal/report_parts.h"
#include "observe/internal/report_style.h"

namespace rookery::observe {
namespace {

using namespace internal;
namespace fs = std::filesystem;

// The last parts of a path, joined by slashes.
std::string last_parts(const fs::path& path, std::ptrdiff_t count) {
  const auto parts = std::distance(path.begin(), path.end());
  fs::path end;
  for (auto part = std::next(path.begin(), std::max<std::ptrdiff_t>(0, parts - count)); part != path.end(); ++part) {
    end /= *part;
  }
  return end.string();
}

std::string setting(const ReportedRun& run, const char* key) {
  const auto found = std::ranges::find(run.settings, key, &KeyValues::value_type::first);
  return found == run.settings.end() ? "" : found->second;
}

// "gpt on tales, 4 peers, diloco"
std::string subject_of(const ReportedRun& run) {
  const std::string model = setting(run, "model.kind"), data = setting(run, "data.source");
  const std::string peers = setting(run, "swarm.peers"), method = setting(run, "sync.method");
  if (model.empty()) return "";
  std::string out = data.empty() ? model : fmt::format("{} on {}", model, data);
  if (!peers.empty() && peers != "1") out += fmt::format(", {} peers", peers);
  if (!method.empty() && peers != "1") out += ", " + method;
  return out;
}

std::string cards_html(const Report& report) {
  std::string cards;
  for (std::size_t i = 0; i < report.runs.size(); ++i) {
    const ReportedRun& run = report.runs[i];
    const std::string name = report.runs.size() == 1 ? "" : fmt::format("<b>{}</b>", name_html(report, i));
    cards += fmt::format("<li>{}{}\n<span>{}</span>\n<span><code>{}</code></span></li>\n", name, html_of(state_of(run)),
                         html_of(subject_of(run)), html_of(run.files.root.string()));
  }
  return fmt::format("<ul class=\"runs\">\n{}</ul>\n", cards);
}

std::string curves_section(const Report& report) {
  std::string figures;
  for (Chart& chart : charts_of(report)) {
    const std::string caption = std::exchange(chart.subtitle, "");
    figures +=
        fmt::format("<figure>\n{}<figcaption>{}</figcaption>\n</figure>\n", to_svg({chart}, 1), html_of(caption));
  }
  if (figures.empty()) figures = "<p>No step has been done yet.</p>\n";
  return section_html("curves", "Curves",
                      fmt::format("<div class=\"curves\">\n{}</div>\n", figures) + evaluations_html(report));
}

struct Part {
  const char *id, *name;
  std::string html;
};

std::string title_of(const Report& report) {
  if (report.runs.size() == 1) return fmt::format("Run {}", report.runs.front().name);
  return fmt::format("{} runs compared", report.runs.size());
}

}  // namespace

namespace internal {

std::string name_html(const Report& report, std::size_t run) {
  constexpr std::size_t kColours = 8;  // of plot.h, whose style sheet colours the dot
  std::string name = html_of(report.runs[run].name);
  if (report.runs.size() == 1) return name;
  return fmt::format(
      "<svg class=\"rookery-plot dot\" viewBox=\"0 0 10 10\" aria-hidden=\"true\"><g class=\"c{}\"><circle cx=\"5\" "
      "cy=\"5\" r=\"5\"/></g></svg>{}",
      run % kColours, name);
}

}  // namespace internal

std::vector<std::string> distinct_names(const std::vector<fs::path>& roots) {
  std::vector<fs::path> paths;
  for (const fs::path& root : roots) {
    const fs::path path = fs::absolute(root).lexically_normal();
    paths.push_back(path.has_filename() ? path : path.parent_path());
  }
  std::vector<std::string> names;
  std::set<std::string> taken;
  for (const fs::path& path : paths) {
    const auto is_clear = [&](std::ptrdiff_t parts) {
      return std::ranges::none_of(paths, [&](const fs::path& other) {
        return other != path && last_parts(other, parts) == last_parts(path, parts);
      });
    };
    std::ptrdiff_t parts = 1;
    while (!is_clear(parts)) ++parts;
    std::string name = last_parts(path, parts);
    for (int i = 2; !taken.insert(name).second; ++i) name = fmt::format("{} ({})", last_parts(path, parts), i);
    names.push_back(std::move(name));
  }
  return names;
}

std::string state_of(const ReportedRun& run) {
  const RunFiles& files = run.files;
  const std::string steps = setting(run, "train.steps");
  const std::string so_far =
      steps.empty() ? fmt::format("step {}", files.last_step) : fmt::format("step {} of {}", files.last_step, steps);
  if (!files.has_summary) {
    const std::string where = files.last_step == 0 ? "no step was done yet" : "the last is " + so_far;
    return fmt::format("goes on or was interrupted (there is no summary.json): {}", where);
  }
  const auto summed = files.outcome.find("steps");
  const bool is_old = summed != files.outcome.end() && summed->is_number_integer() && *summed < files.last_step;
  if (is_old) {
    return fmt::format("goes on or was interrupted: the last is {}, but summary.json is of step {}", so_far,
                       summed->get<std::int64_t>());
  }
  if (!steps.empty() && steps != fmt::format("{}", files.last_step)) return "ended after " + so_far;
  return fmt::format("finished after {} steps", files.last_step);
}

std::string to_html(const Report& report) {
  std::vector<Part> parts = {{"summary", "Summary", summary_section(report)},
                             {"settings", "Settings", settings_section(report)},
                             {"curves", "Curves", curves_section(report)},
                             {"time", "Time", time_section(report)},
                             {"prediction", "Prediction", prediction_section(report)},
                             {"failures", "Failures", incidents_section(report)}};
  std::erase_if(parts, [](const Part& part) { return part.html.empty(); });
  std::string links, sections;
  for (const Part& part : parts) {
    links += fmt::format("<li><a href=\"#{}\">{}</a></li>\n", part.id, part.name);
    sections += part.html;
  }
  const std::string title = html_of(title_of(report));
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
      "img-src data:\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n<link rel=\"icon\" href=\"data:,\">\n"
      "<title>{0} – Rookery report</title>\n<style>{1}</style>\n</head>\n<body>\n"
      "<header>\n<h1>{0}</h1>\n{2}<nav aria-label=\"Contents\">\n<ul>\n{3}</ul>\n</nav>\n</header>\n"
      "<main>\n{4}</main>\n<footer>Written by rookery report. Curves of more than 2000 points are drawn through "
      "evenly chosen ones; numbers are those of the runs' files.</footer>\n</body>\n</html>\n",
      title, kReportStyle, cards_html(report), links, sections);
}

}  // namespace rookery::observe
