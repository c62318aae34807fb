#include "dashboard/text.h"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/units.h"

namespace rookery::dashboard {
namespace {

// Letters and signs alone; others choose names and reasons.
std::string clean(const std::string& text) {
  std::string result;
  for (const char c : text) result += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c;
  return result;
}

std::string text_at(const Json& object, const char* key) {
  if (!object.is_object()) return "";
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? clean(found->get<std::string>()) : "";
}

std::optional<double> number_at(const Json& object, const char* key) {
  if (!object.is_object()) return std::nullopt;
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? std::optional(found->get<double>()) : std::nullopt;
}

std::string duration(double seconds) {
  constexpr double kMost = 1e9;
  return format_duration(std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::duration<double>(std::clamp(seconds, 0.0, kMost))));
}

std::string bytes(std::optional<double> count) {
  return count ? format_bytes(static_cast<Bytes>(std::clamp(*count, 0.0, 1e18))) : "";
}

std::string whole(std::optional<double> count) { return count ? fmt::format("{:.0f}", *count) : ""; }

// A value of the last row.
std::optional<double> latest(const Json& brief, std::string_view column) {
  const Json series = brief.value("series", Json::object());
  const Json columns = series.value("columns", Json::array()), rows = series.value("rows", Json::array());
  if (rows.empty() || !rows.back().is_array()) return std::nullopt;
  for (std::size_t i = 0; i < columns.size() && i < rows.back().size(); ++i) {
    if (columns[i] == column && rows.back()[i].is_number()) return rows.back()[i].get<double>();
  }
  return std::nullopt;
}

std::string bar(double share, std::size_t width) {
  const auto filled = static_cast<std::size_t>(std::clamp(share, 0.0, 1.0) * static_cast<double>(width));
  return "[" + std::string(filled, '=') + (filled < width ? ">" : "") +
         std::string(width - std::min(width, filled + 1), ' ') + "]";
}

std::string headline(const Json& run, const Json& plan) {
  const double step = number_at(run, "step").value_or(0), steps = number_at(run, "steps").value_or(0);
  std::string line = fmt::format("{}  {}  {} {:.0f}/{:.0f}", text_at(run, "name"), text_at(run, "phase"),
                                 bar(steps > 0 ? step / steps : 0, 20), step, steps);
  const auto took = number_at(plan, "measured_step_seconds");
  if (took && text_at(run, "phase") == "training") line += "  ETA " + duration(*took * (steps - step));
  const std::string why = text_at(run, "why");
  return why.empty() ? line : line + "  " + why;
}

std::string facts(const Json& brief, const Json& plan) {
  std::string line;
  const auto add = [&](const std::string& text) { line += (line.empty() ? "" : "  ") + text; };
  if (const auto loss = latest(brief, "loss")) add(fmt::format("loss {:.4f}", *loss));
  if (const auto loss = number_at(brief, "eval_loss")) add(fmt::format("eval {:.4f}", *loss));
  if (const auto tokens = latest(brief, "tokens_per_second")) add(format_count(*tokens) + " tokens/s");
  if (const auto took = number_at(plan, "measured_step_seconds")) add(duration(*took) + " a step");
  if (const auto predicted = number_at(plan, "predicted_step_seconds")) add("predicted " + duration(*predicted));
  if (const auto share = latest(brief, "wait_share")) add(fmt::format("waiting {:.0f}%", 100 * *share));
  if (const auto generation = number_at(plan, "generation")) add("generation " + whole(generation));
  return line;
}

std::vector<std::string> row_of(const Json& peer) {
  const Json memory = peer.value("memory", Json::object()), layers = peer.value("layers", Json());
  const bool has_layers = layers.is_array() && layers.size() == 2 && layers[0].is_number() && layers[1].is_number();
  const std::string held =
      has_layers ? fmt::format("{}-{}", layers[0].get<std::int64_t>(), layers[1].get<std::int64_t>() - 1) : "";
  const auto compute = number_at(peer, "compute_seconds"), wait = number_at(peer, "wait_seconds");
  return {text_at(peer, "name"),
          text_at(peer, "state"),
          whole(number_at(peer, "cluster")),
          held,
          whole(number_at(peer, "step")),
          compute ? duration(*compute) : "",
          wait ? duration(*wait) : "",
          bytes(number_at(peer, "send_rate")) + "/s",
          bytes(number_at(memory, "resident"))};
}

// Aligned, the first two to the left.
std::vector<std::string> table_of(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(row.size());
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::vector<std::string> lines;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += i < 2 ? fmt::format("{:<{}}  ", row[i], widths[i]) : fmt::format("{:>{}}  ", row[i], widths[i]);
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

std::string sentence_of(const Json& event) {
  return fmt::format("{:>9}  {:<10} {} {}", duration(number_at(event, "seconds").value_or(0)), text_at(event, "event"),
                     text_at(event, "peer"), text_at(event, "text"));
}

}  // namespace

std::vector<std::string> lines_of(const Json& brief, std::size_t columns, std::size_t most_lines) {
  if (!brief.is_object()) return {};
  const Json run = brief.value("run", Json::object()), plan = brief.value("plan", Json());
  std::vector<std::string> lines = {headline(run, plan), facts(brief, plan), ""};
  std::vector<std::vector<std::string>> rows = {
      {"peer", "state", "cluster", "layers", "step", "computes", "waits", "sends", "memory"}};
  for (const Json& peer : brief.value("peers", Json::array())) rows.push_back(row_of(peer));
  const std::size_t events_shown = std::min<std::size_t>(6, most_lines / 4);
  const std::size_t room = most_lines - std::min(most_lines, lines.size() + events_shown + 1);
  if (rows.size() > room && room > 1) {
    const std::size_t left_out = rows.size() - room + 1;
    rows.resize(room - 1);
    rows.push_back({fmt::format("and {} more", left_out), "", "", "", "", "", "", "", ""});
  }
  for (std::string& line : table_of(rows)) lines.push_back(std::move(line));
  lines.emplace_back();
  const Json events = brief.value("events", Json::array());
  const std::size_t first = events.size() - std::min(events.size(), events_shown);
  for (std::size_t i = first; i < events.size(); ++i) lines.push_back(sentence_of(events[i]));
  if (lines.size() > most_lines) lines.resize(most_lines);
  for (std::string& line : lines) {
    while (!line.empty() && line.back() == ' ') line.pop_back();
    if (line.size() > columns) line.resize(columns);
  }
  return lines;
}

}  // namespace rookery::dashboard
