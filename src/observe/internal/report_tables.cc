#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "observe/internal/html.h"
#include "observe/internal/report_parts.h"

namespace rookery::observe::internal {
namespace {

using Json = nlohmann::json;

struct Label {
  const char* field;
  const char* words;
  Unit unit = Unit::kNone;
};
constexpr std::array<Label, 22> kLabels = {{
    {"final_loss", "Final loss"},
    {"eval_loss", "Evaluation loss"},
    {"eval_accuracy", "Evaluation accuracy", Unit::kShare},
    {"test_loss", "Test loss"},
    {"test_accuracy", "Test accuracy", Unit::kShare},
    {"entropy_floor", "Least loss possible"},
    {"steps", "Steps"},
    {"samples", "Samples"},
    {"tokens", "Tokens"},
    {"tokens_per_second", "Tokens per second"},
    {"samples_per_second", "Samples per second"},
    {"wall_seconds", "Wall time", Unit::kSeconds},
    {"peak_memory_bytes", "Peak memory of the largest peer", Unit::kBytes},
    {"parameters", "Parameters"},
    {"bytes_sent", "Sent by all peers", Unit::kBytes},
    {"payload_bytes_sent", "Of that, without headers", Unit::kBytes},
    {"exposed_communication_share", "Share of time spent waiting", Unit::kShare},
    {"rounds", "Rounds"},
    {"rounds_failed", "Rounds that failed"},
    {"consensus_distance", "Distance of the copies"},
    {"identical_copies", "Copies identical at the end"},
    {"samples_left_out", "Samples left out"},
}};
constexpr std::array<const char*, 2> kElsewhere = {"predicted_step_seconds", "measured_step_seconds"};
constexpr std::size_t kMostRows = 100;

Label label_of(const std::string& field) {
  const auto found = std::ranges::find(kLabels, field, &Label::field);
  return found == kLabels.end() ? Label{nullptr, nullptr} : *found;
}

// The fields of all outcomes that are one value each, first those that have a label.
std::vector<std::string> fields_of(const Report& report) {
  std::vector<std::string> fields(kLabels.size());
  std::ranges::transform(kLabels, fields.begin(), &Label::field);
  for (const ReportedRun& run : report.runs) {
    for (const auto& [field, value] : run.files.outcome.items()) {
      if (fields.size() < kMostRows && !value.is_structured() && std::ranges::find(fields, field) == fields.end()) {
        fields.push_back(field);
      }
    }
  }
  std::erase_if(fields, [&](const std::string& field) {
    return std::ranges::find(kElsewhere, field) != kElsewhere.end() ||
           std::ranges::none_of(report.runs, [&](const auto& run) { return run.files.outcome.contains(field); });
  });
  return fields;
}

std::vector<Column> column_of_each_run(const Report& report, const char* first, bool is_text = false) {
  std::vector<Column> columns = {{html_of(first)}};
  for (std::size_t i = 0; i < report.runs.size(); ++i) columns.push_back({name_html(report, i), is_text});
  return columns;
}

// A row with one cell of each run; none if all cells are empty.
void add_row(Table& table, const Report& report, const std::string& head_html, const auto& cell_of) {
  std::vector<std::string> cells = {head_html};
  bool is_empty = true;
  for (const ReportedRun& run : report.runs) {
    const std::string cell = cell_of(run.files);
    is_empty = is_empty && cell.empty();
    cells.push_back(cell.empty() ? nothing_html() : cell);
  }
  if (!is_empty) table.add(cells);
}

// The elements of a list of the summary, one after the other, each in words.
std::string list_html(const RunFiles& run, const char* field, const auto& words_of) {
  constexpr std::size_t kMost = 20;
  const auto list = run.outcome.find(field);
  if (list == run.outcome.end() || !list->is_array() || list->empty()) return "";
  std::string out;
  for (std::size_t i = 0; i < std::min(kMost, list->size()); ++i) {
    out += (i == 0 ? "" : "; ") + html_of(words_of((*list)[i]));
  }
  if (list->size() > kMost) out += fmt::format("; and {} more", list->size() - kMost);
  return fmt::format("<span class=\"list\">{}</span>", out);
}

std::string whole(const Json& object, const char* field) {
  const auto found = object.is_object() ? object.find(field) : object.end();
  return found != object.end() && found->is_number_integer() ? found->dump() : "?";
}

// "steps 3 to 5"
std::string steps_in_words(const Json& range) {
  return fmt::format("steps {} to {}", whole(range, "first_step"), whole(range, "last_step"));
}

void add_lists(Table& table, const Report& report) {
  add_row(table, report, "Left out", [](const RunFiles& run) {
    return list_html(run, "left_out", [](const Json& own) {
      return fmt::format("{} of cluster {}", steps_in_words(own), whole(own, "cluster"));
    });
  });
  add_row(table, report, "Done again", [](const RunFiles& run) { return list_html(run, "repeated", steps_in_words); });
  add_row(table, report, "Expelled", [](const RunFiles& run) {
    return list_html(run, "expelled",
                     [](const Json& name) { return name.is_string() ? name.get<std::string>() : "?"; });
  });
  add_row(table, report, "Steps whose loss is not a number", [](const RunFiles& run) {
    return run.steps_without_loss > 0 ? fmt::format("{}", run.steps_without_loss) : "";
  });
}

const std::string* value_of(const KeyValues& settings, const std::string& key) {
  const auto found = std::ranges::find(settings, key, &KeyValues::value_type::first);
  return found == settings.end() ? nullptr : &found->second;
}

std::string setting_html(const std::string* value) {
  if (value == nullptr) return nothing_html();
  return value->empty() ? "<code>\"\"</code>" : fmt::format("<code>{}</code>", html_of(*value));
}

bool differ(const std::string* a, const std::string* b) {
  return (a == nullptr) != (b == nullptr) || (a != nullptr && *a != *b);
}

// All keys of some lists, in the order of the first that has them.
std::vector<std::string> keys_of(const std::vector<const KeyValues*>& all) {
  std::vector<std::string> keys;
  std::set<std::string> seen;
  for (const KeyValues* settings : all) {
    for (const auto& [key, value] : *settings) {
      if (seen.insert(key).second) keys.push_back(key);
    }
  }
  return keys;
}

void add_settings(Table& table, const std::string& key, const std::vector<const KeyValues*>& all) {
  std::vector<std::string> cells = {fmt::format("<code>{}</code>", html_of(key))};
  for (const KeyValues* settings : all) cells.push_back(setting_html(value_of(*settings, key)));
  table.add(cells);
}

std::optional<double> positive(const RunFiles& run, const char* field) {
  const auto found = run.outcome.find(field);
  if (found == run.outcome.end() || !found->is_number() || found->get<double>() <= 0) return std::nullopt;
  return found->get<double>();
}

// It may be broken after each word.
std::string name_of_field_html(const std::string& field) {
  std::string out;
  for (const char c : html_of(field)) out += c == '_' ? "_<wbr>" : std::string(1, c);
  return fmt::format("<code>{}</code>", out);
}

// A number that is whole in the file.
std::string count_html(double number) {
  constexpr double kMost = 9e15;  // up to which every whole number has a double
  return std::abs(number) < kMost ? value_html(static_cast<std::int64_t>(number)) : value_html(number);
}

}  // namespace

std::string summary_section(const Report& report) {
  const bool is_complete =
      std::ranges::all_of(report.runs, [](const ReportedRun& run) { return run.files.has_summary; });
  Table table(is_complete ? "From summary.json"
                          : "From summary.json; of runs without one, from the last lines of metrics.jsonl",
              column_of_each_run(report, "Result"));
  for (const std::string& field : fields_of(report)) {
    const Label label = label_of(field);
    const std::string name = name_of_field_html(field);
    const std::string head = label.words == nullptr ? name : fmt::format("{} {}", label.words, name);
    add_row(table, report, head, [&](const RunFiles& run) {
      const auto value = run.outcome.find(field);
      return value == run.outcome.end() || value->is_structured() ? "" : value_html(*value, label.unit);
    });
  }
  add_lists(table, report);
  if (table.is_empty()) return "";
  return section_html("summary", "Summary", table.html());
}

std::string settings_section(const Report& report) {
  std::vector<const KeyValues*> all;
  std::vector<Column> columns = column_of_each_run(report, "Setting", true);
  const bool alone = report.runs.size() == 1;
  if (alone) {
    all.push_back(&report.defaults);
    columns.insert(columns.begin() + 1, {.head_html = "Default", .is_text = true});
  }
  for (const ReportedRun& run : report.runs) all.push_back(&run.settings);
  Table different(alone ? "Settings that are not the defaults" : "Settings in which the runs differ", columns);
  Table complete("All settings, from run.toml", columns);
  for (const std::string& key : keys_of(all)) {
    const std::string* first = value_of(*all.front(), key);
    const bool is_different =
        std::ranges::any_of(all, [&](const KeyValues* settings) { return differ(first, value_of(*settings, key)); });
    if (is_different) add_settings(different, key, all);
    add_settings(complete, key, all);
  }
  if (complete.is_empty()) return "";
  const char* none = alone ? "<p>All settings are the defaults.</p>\n" : "<p>All runs have the same settings.</p>\n";
  return section_html("settings", "Settings",
                      (different.is_empty() ? none : different.html()) +
                          fmt::format("<details>\n<summary>All settings</summary>\n{}</details>\n", complete.html()));
}

std::string prediction_section(const Report& report) {
  Table table(
      "How long a step took, and what was predicted before the first; an error above 0 is a prediction too long",
      {{"Run"}, {"Predicted"}, {"Measured"}, {"Error"}});
  for (std::size_t i = 0; i < report.runs.size(); ++i) {
    const RunFiles& run = report.runs[i].files;
    const auto predicted = positive(run, "predicted_step_seconds"), measured = positive(run, "measured_step_seconds");
    if (!predicted || !measured) continue;
    table.add({name_html(report, i), value_html(run.outcome.at("predicted_step_seconds"), Unit::kSeconds),
               value_html(run.outcome.at("measured_step_seconds"), Unit::kSeconds),
               fmt::format("{:+.1f} %", 100 * (*predicted / *measured - 1))});
  }
  if (table.is_empty()) return "";
  return section_html("prediction", "Predicted and measured step time", table.html());
}

std::string evaluations_html(const Report& report) {
  constexpr std::size_t kMostOfARun = 200;
  Table table("Evaluations", {{"Run"}, {"Step"}, {"Seconds"}, {"Samples"}, {"Loss"}, {"Accuracy"}});
  for (std::size_t i = 0; i < report.runs.size(); ++i) {
    const RunFiles& run = report.runs[i].files;
    const std::vector<Point> losses = run.eval_loss.points(), accuracies = run.eval_accuracy.points();
    const std::size_t stride = losses.size() / kMostOfARun + 1;
    for (std::size_t p = 0; p < losses.size(); ++p) {
      if (p % stride != 0 && p + 1 != losses.size()) continue;
      const auto accuracy = std::ranges::lower_bound(accuracies, losses[p].step, {}, &Point::step);
      const bool has_accuracy = accuracy != accuracies.end() && accuracy->step == losses[p].step;
      table.add({name_html(report, i), value_html(losses[p].step), value_html(losses[p].seconds),
                 count_html(losses[p].samples), value_html(losses[p].value),
                 has_accuracy ? value_html(accuracy->value) : nothing_html()});
    }
  }
  if (table.is_empty()) return "";
  return fmt::format("<details>\n<summary>Evaluations as numbers</summary>\n{}</details>\n", table.html());
}

}  // namespace rookery::observe::internal
