#include "observe/report.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "cli/commands.h"
#include "train/run_directory.h"

namespace rookery::cli {
namespace {

using nlohmann::ordered_json;

struct ReportOptions {
  std::vector<std::string> runs;
  std::string out, svg, csv;
  bool json = false;
};

// {"train": {"lr": 0.1}} as train.lr = 0.1, and a list by number: peer.0.speed.
void flatten(const ordered_json& value, const std::string& key, observe::KeyValues& all) {
  if (value.is_object() || (value.is_array() && !value.empty() && value.front().is_object())) {
    for (const auto& [name, part] : value.items()) flatten(part, key.empty() ? name : key + "." + name, all);
  } else {
    all.emplace_back(key, value.is_string() ? value.get<std::string>() : value.dump());
  }
}

observe::KeyValues key_values(const config::Settings& settings) {
  observe::KeyValues all;
  flatten(config::to_json(settings), "", all);
  return all;
}

observe::Report read_runs(const std::vector<std::string>& folders) {
  std::vector<std::filesystem::path> roots;
  for (const std::string& folder : folders) roots.push_back(train::open_run(folder).root());
  const std::vector<std::string> names = observe::distinct_names(roots);
  observe::Report report{.defaults = key_values({})};
  report.runs.reserve(roots.size());
  for (std::size_t i = 0; i < roots.size(); ++i) {
    const config::Settings settings = config::load(train::RunDirectory(roots[i]).settings());
    report.runs.push_back({.name = names[i], .files = observe::read_run(roots[i]), .settings = key_values(settings)});
  }
  return report;
}

ordered_json to_json(const observe::Report& report, const ReportOptions& options, const std::string& page) {
  ordered_json object = {{"report", page}, {"runs", ordered_json::array()}};
  for (const observe::ReportedRun& run : report.runs) {
    object["runs"].push_back({{"name", run.name},
                              {"path", run.files.root.string()},
                              {"state", observe::state_of(run)},
                              {"steps", run.files.last_step},
                              {"failures", run.files.failure_count()}});
  }
  if (!options.svg.empty()) object["svg"] = options.svg;
  if (!options.csv.empty()) object["csv"] = options.csv;
  return object;
}

int report(const ReportOptions& options) {
  const observe::Report report = read_runs(options.runs);
  const std::filesystem::path folder = report.runs.size() == 1 ? report.runs.front().files.root : ".";
  const std::string page = options.out.empty() ? (folder / "report.html").string() : options.out;
  replace_file(page, observe::to_html(report));
  if (!options.svg.empty()) replace_file(options.svg, observe::to_svg(observe::charts_of(report)));
  if (!options.csv.empty()) observe::write_csv(report, options.csv);
  if (options.json) {
    print_json(to_json(report, options, page));
    return 0;
  }
  for (const observe::ReportedRun& run : report.runs) fmt::print("{:<12} {}\n", run.name, observe::state_of(run));
  fmt::print("{:<12} {}, {} run{}\n", "report", page, report.runs.size(), report.runs.size() == 1 ? "" : "s");
  if (!options.svg.empty()) fmt::print("{:<12} {}\n", "curves", options.svg);
  if (!options.csv.empty()) fmt::print("{:<12} {}\n", "metrics", options.csv);
  return 0;
}

}  // namespace

void add_report(CLI::App& app, const Choose& choose) {
  CLI::App* command = app.add_subcommand("report", "write a page about one run, or several laid over each other");
  auto options = std::make_shared<ReportOptions>();
  command->add_option("RUN", options->runs, "directories of runs, also of those that go on")->required();
  command->add_option("-o,--out", options->out, "the page; else report.html in the run's directory, of several here")
      ->type_name("FILE.HTML");
  command->add_option("--svg", options->svg, "the curves as one picture, too")->type_name("FILE.SVG");
  command->add_option("--csv", options->csv, "the metrics of all steps as one table, too")->type_name("FILE.CSV");
  command->add_flag("--json", options->json, "print what was written as JSON");
  command->callback([options, choose] { choose([options] { return report(*options); }); });
}

}  // namespace rookery::cli
