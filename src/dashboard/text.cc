#include "dashboard/text.h"

#include <algorithm>
#include <chrono>
#include <tuple>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/units.h"

namespace rookery::dashboard {
namespace {

// Letters and signs alone; others choose names and reasons. Terminals obey U+0080 to U+009F, too, as UTF-8 or as bytes
// that belong to nothing before them.
std::string clean(const std::string& text) {
  std::string result;
  std::size_t continued = 0;  // bytes that are still to come of a letter
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    const auto next = i + 1 < text.size() ? static_cast<unsigned char>(text[i + 1]) : 0;
    const bool is_high_control = c == 0xc2 && next >= 0x80 && next < 0xa0;
    const bool continues = c >= 0x80 && c < 0xc0;
    const bool is_stray = continues && continued == 0;
    continued = continues ? continued - (is_stray ? 0 : 1) : c >= 0xf0 ? 3 : c >= 0xe0 ? 2 : c >= 0xc0 ? 1 : 0;
    result += c < 0x20 || c == 0x7f || is_high_control || is_stray ? ' ' : text[i];
    if (is_high_control) ++i, continued = 0;
  }
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

// What there is of it; empty if there is nothing.
std::string more_facts(const Json& brief, const std::vector<Json>& peers) {
  std::string line;
  const auto add = [&](const char* name, std::optional<double> value) {
    if (value) line += fmt::format("{}{} {:.4g}", line.empty() ? "" : "  ", name, *value);
  };
  add("lr", latest(brief, "lr"));
  add("distance", number_at(brief, "consensus_distance"));
  add("drift", number_at(brief, "drift"));
  double failed = 0;
  for (const Json& peer : peers) failed += number_at(peer, "rounds_failed").value_or(0);
  if (failed > 0) add("rounds failed", failed);
  return line;
}

// First those who are to train and do not, then those who do, then those who have gone for good; each by their place.
std::vector<Json> peers_of(const Json& brief) {
  std::vector<Json> peers;
  for (const Json& peer : brief.value("peers", Json::array())) {
    if (peer.is_object()) peers.push_back(peer);
  }
  static constexpr double kNowhere = 1e18;
  const auto order = [](const Json& peer) {
    const std::string state = text_at(peer, "state");
    const auto cluster = number_at(peer, "cluster");
    const bool is_coming = state == "joining" || state == "ready" || state == "restoring" || state == "silent";
    const int kind = state == "training" || state == "ended" ? 1 : cluster || is_coming ? 0 : 2;
    return std::tuple(kind, cluster.value_or(kNowhere), number_at(peer, "stage").value_or(kNowhere));
  };
  std::ranges::stable_sort(peers, {}, order);
  return peers;
}

bool flag_at(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_boolean() && found->get<bool>();
}

// The first and the last.
std::string layers_of(const Json& peer) {
  const Json layers = peer.value("layers", Json());
  const bool has_layers = layers.is_array() && layers.size() == 2 && layers[0].is_number() && layers[1].is_number();
  return has_layers ? fmt::format("{}-{}", layers[0].get<std::int64_t>(), layers[1].get<std::int64_t>() - 1) : "";
}

const std::vector<std::string> kHeads = {"peer",     "state", "cluster", "stage",  "layers", "step",
                                         "computes", "waits", "sends",   "failed", "memory"};

std::vector<std::string> row_of(const Json& peer) {
  const Json memory = peer.value("memory", Json::object());
  const auto compute = number_at(peer, "compute_seconds"), wait = number_at(peer, "wait_seconds");
  return {text_at(peer, "name") + (flag_at(peer, "stands_in") ? " (stands in)" : ""),
          text_at(peer, "state"),
          whole(number_at(peer, "cluster")),
          whole(number_at(peer, "stage")),
          layers_of(peer),
          whole(number_at(peer, "step")),
          compute ? duration(*compute) : "",
          wait ? duration(*wait) : "",
          bytes(number_at(peer, "send_rate")) + "/s",
          whole(number_at(peer, "rounds_failed")),
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

Json array_at(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_array() ? *found : Json::array();
}

std::string sentence_of(const Json& event) {
  return fmt::format("{:>9}  {:<10} {} {}", duration(number_at(event, "seconds").value_or(0)), text_at(event, "event"),
                     text_at(event, "peer"), text_at(event, "text"));
}

// What does not fit is left out.
void fit(std::vector<std::string>& lines, std::size_t columns, std::size_t most_lines) {
  if (lines.size() > most_lines) lines.resize(most_lines);
  for (std::string& line : lines) {
    while (!line.empty() && line.back() == ' ') line.pop_back();
    if (line.size() > columns) line.resize(columns);
  }
}

std::string memory_of(const Json& peer) {
  const Json memory = peer.value("memory", Json::object());
  std::string line = bytes(number_at(memory, "resident")) + " resident";
  if (const auto planned = number_at(memory, "planned")) line += ", " + bytes(planned) + " planned";
  if (const auto limit = number_at(memory, "limit")) return line + ", limit " + bytes(limit);
  if (const auto free = number_at(memory, "available")) line += ", limit " + bytes(free) + " (free on its computer)";
  return line;
}

// What is known of it, by name.
std::vector<std::vector<std::string>> facts_of(const Json& peer) {
  const auto seconds = [&](const char* key) {
    const auto value = number_at(peer, key);
    return value ? duration(*value) : "";
  };
  const std::string layers = layers_of(peer), cluster = whole(number_at(peer, "cluster"));
  const auto traffic = [&](const char* sum, const char* rate) {
    return fmt::format("{}, now {}/s", bytes(number_at(peer, sum)), bytes(number_at(peer, rate)));
  };
  std::vector<std::vector<std::string>> facts = {
      {"place", cluster.empty()
                    ? "none"
                    : fmt::format("cluster {}, stage {}, layers {}", cluster, whole(number_at(peer, "stage")), layers)},
      {"stands in", flag_at(peer, "stands_in") ? "yes: its process has another place, too" : ""},
      {"host", text_at(peer, "host")},
      {"hardware", text_at(peer, "hardware")},
      {"cores", whole(number_at(peer, "cores"))},
      {"speed", fmt::format("{:.0f}%", 100 * number_at(peer, "speed").value_or(1))},
      {"memory", memory_of(peer)},
      {"step", whole(number_at(peer, "step"))},
      {"computes", seconds("compute_seconds")},
      {"waits", seconds("wait_seconds")},
      {"sent", traffic("bytes_sent", "send_rate")},
      {"received", traffic("bytes_received", "receive_rate")},
      {"staleness", whole(number_at(peer, "staleness"))},
      {"rounds failed", whole(number_at(peer, "rounds_failed"))}};
  std::erase_if(facts, [](const auto& fact) { return fact[1].empty(); });
  return facts;
}

}  // namespace

std::vector<std::string> lines_of(const Json& brief, std::size_t columns, std::size_t most_lines) {
  if (!brief.is_object()) return {};
  const Json run = brief.value("run", Json::object()), plan = brief.value("plan", Json());
  const std::vector<Json> peers = peers_of(brief);
  std::vector<std::string> lines = {headline(run, plan), facts(brief, plan)};
  if (std::string more = more_facts(brief, peers); !more.empty()) lines.push_back(std::move(more));
  lines.emplace_back();
  std::vector<std::vector<std::string>> rows = {kHeads};
  for (const Json& peer : peers) rows.push_back(row_of(peer));
  const std::size_t events_shown = std::min<std::size_t>(6, most_lines / 4);
  const std::size_t room = most_lines - std::min(most_lines, lines.size() + events_shown + 1);
  if (rows.size() > room && room > 1) {
    const std::size_t left_out = rows.size() - room + 1;
    rows.resize(room - 1);
    rows.emplace_back(kHeads.size()).front() = fmt::format("and {} more", left_out);
  }
  for (std::string& line : table_of(rows)) lines.push_back(std::move(line));
  lines.emplace_back();
  const Json events = array_at(brief, "events");
  const std::size_t first = events.size() - std::min(events.size(), events_shown);
  for (std::size_t i = first; i < events.size(); ++i) lines.push_back(sentence_of(events[i]));
  fit(lines, columns, most_lines);
  return lines;
}

std::vector<std::string> lines_of_peer(const Json& brief, const std::string& name, std::size_t columns,
                                       std::size_t most_lines) {
  if (!brief.is_object()) return {};
  std::vector<std::string> lines = {headline(brief.value("run", Json::object()), brief.value("plan", Json())), ""};
  const std::vector<Json> peers = peers_of(brief);
  const auto found =
      std::ranges::find_if(peers, [&](const Json& peer) { return text_at(peer, "name") == clean(name); });
  if (found == peers.end()) {
    lines.push_back(fmt::format("there is no peer {}", clean(name)));
  } else {
    const std::string why = text_at(*found, "why");
    lines.push_back(fmt::format("{}  {}{}{}", clean(name), text_at(*found, "state"), why.empty() ? "" : ": ", why));
    for (std::string& line : table_of(facts_of(*found))) lines.push_back("  " + std::move(line));
    const Json log = array_at(*found, "log");
    lines.emplace_back();
    const std::size_t room = most_lines - std::min(most_lines, lines.size());
    for (std::size_t i = log.size() - std::min(log.size(), room); i < log.size(); ++i) {
      if (log[i].is_string()) lines.push_back(clean(log[i].get<std::string>()));
    }
  }
  fit(lines, columns, most_lines);
  return lines;
}

}  // namespace rookery::dashboard
