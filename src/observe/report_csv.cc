#include <set>

#include "base/file.h"
#include "observe/internal/lines.h"
#include "observe/internal/svg_text.h"
#include "observe/metrics.h"
#include "observe/report.h"

namespace rookery::observe {
namespace {

constexpr std::size_t kPiece = std::size_t{1} << 20;

// As RFC 4180 has it.
std::string cell_of(const std::string& text) {
  std::string clean = internal::printable(text);
  if (clean.find_first_of(",\"") == std::string::npos) return clean;
  std::string quoted = "\"";
  for (const char c : clean) quoted.append(c == '"' ? 2 : 1, c);
  return quoted + '"';
}

// The names of all fields of StepMetrics, in their order.
std::vector<std::string> known_metrics() {
  StepMetrics all{.eval_loss = 0, .eval_accuracy = 0};
  all.together = StepMetrics::Together{};
  all.consensus_distance = all.drift = 0;
  all.staleness_max = 0;
  const nlohmann::ordered_json line = to_json(all);
  std::vector<std::string> names;
  for (const auto& [name, value] : line.items()) names.push_back(name);
  return names;
}

// What some run has: first what is known, in its order, then the rest.
std::vector<std::string> columns_of(const Report& report) {
  std::set<std::string> names;
  for (const ReportedRun& run : report.runs) names.insert(run.files.metrics.begin(), run.files.metrics.end());
  std::vector<std::string> columns;
  for (const std::string& name : known_metrics()) {
    if (names.erase(name) > 0) columns.push_back(name);
  }
  columns.insert(columns.end(), names.begin(), names.end());
  return columns;
}

std::string row_of(const nlohmann::json& line, const std::vector<std::string>& columns) {
  std::string row;
  for (const std::string& name : columns) {
    const auto field = line.find(name);
    const bool has_value = field != line.end() && (field->is_number() || field->is_boolean());
    row += ',';
    if (has_value) row += field->dump();
  }
  return row;
}

}  // namespace

void write_csv(const Report& report, const std::filesystem::path& path) {
  const std::vector<std::string> columns = columns_of(report);
  FileWriter file(path);
  std::string text = "run";
  for (const std::string& name : columns) text += ',' + name;
  text += '\n';
  for (const ReportedRun& run : report.runs) {
    const std::filesystem::path metrics = run.files.root / "metrics.jsonl";
    const std::string name = cell_of(run.name);
    internal::for_each_line(metrics, [&](std::string_view line, std::int64_t number) {
      text += name + row_of(parse_metrics(line, metrics, number), columns) + '\n';
      if (text.size() < kPiece) return;
      file.write(text);
      text.clear();
    });
  }
  file.write(text);
  file.finish();
}

}  // namespace rookery::observe
