#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "observe/internal/html.h"
#include "observe/internal/report_parts.h"

namespace rookery::observe::internal {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMostPeers = 200;  // of a run, in a table

double share(double part, const TimeSplit& time) {
  const double all = time.compute + time.waiting + time.other();
  return all > 0 ? part / all : 0;
}

std::string part_html(double seconds, const TimeSplit& time) {
  return fmt::format("{} <span class=\"exact\">{}</span>", rounded(share(seconds, time), Unit::kShare),
                     rounded(seconds, Unit::kSeconds));
}

// One bar, cut into what was computed, waited for, and the rest.
std::string bar_html(const TimeSplit& time) {
  const double compute = 100 * share(time.compute, time), waiting = 100 * share(time.waiting, time);
  const double other = 100 * share(time.other(), time);
  return fmt::format(
      "<svg class=\"bar\" role=\"img\" aria-label=\"compute {0:.1f} %, waiting {1:.1f} %, other {2:.1f} %\" "
      "viewBox=\"0 0 100 10\" preserveAspectRatio=\"none\"><rect class=\"compute\" width=\"{0:.2f}\" height=\"10\"/>"
      "<rect class=\"waiting\" x=\"{0:.2f}\" width=\"{1:.2f}\" height=\"10\"/>"
      "<rect class=\"other\" x=\"{3:.2f}\" width=\"{2:.2f}\" height=\"10\"/></svg>",
      compute, waiting, other, compute + waiting);
}

std::vector<std::string> split_html(const TimeSplit& time) {
  if (time.compute + time.waiting + time.other() <= 0) return std::vector<std::string>(4, nothing_html());
  return {bar_html(time), part_html(time.compute, time), part_html(time.waiting, time), part_html(time.other(), time)};
}

// What the summary says of each peer, in place: copying goes as deep as its values, and others choose how deep.
using Summaries = std::map<std::string, const Json*>;

Summaries summaries_of(const RunFiles& run) {
  Summaries summaries;
  const auto peers = run.outcome.find("peers");
  if (peers == run.outcome.end() || !peers->is_array()) return summaries;
  for (const Json& own : *peers) {
    const auto name = own.is_object() ? own.find("name") : own.end();
    if (name != own.end() && name->is_string()) summaries.emplace(name->get<std::string>(), &own);
  }
  return summaries;
}

// Peers with lines of their own, and those that only the summary knows. The lines of a peer alone are those of the run.
std::vector<PeerLines> peers_of(const RunFiles& run, Summaries summaries) {
  std::vector<PeerLines> peers = run.peers;
  if (peers.empty() && summaries.size() == 1) {
    return {{.name = summaries.begin()->first, .steps = run.last_step, .time = run.time}};
  }
  for (const PeerLines& peer : peers) summaries.erase(peer.name);
  for (const auto& [name, own] : summaries) peers.push_back({.name = name});
  return peers;
}

std::string field_html(const Json& object, const char* field, Unit unit) {
  const auto found = object.find(field);
  return found == object.end() ? nothing_html() : value_html(*found, unit);
}

// "cluster 0, layers 2 to 5"
std::string place_html(const Json& peer) {
  const auto layers = peer.find("layers");
  if (layers == peer.end() || !layers->is_array() || layers->size() != 2) return nothing_html();
  const Json &begin = (*layers)[0], &end = (*layers)[1];
  if (!begin.is_number_unsigned() || !end.is_number_unsigned() || !peer.contains("cluster")) return nothing_html();
  return fmt::format("cluster {}, layers {} to {}", value_html(peer["cluster"]), begin.get<std::uint64_t>(),
                     end.get<std::uint64_t>() - 1);
}

std::string table_of_peers(const Report& report, std::size_t number) {
  const RunFiles& run = report.runs[number].files;
  const Summaries summaries = summaries_of(run);
  const std::vector<PeerLines> peers = peers_of(run, summaries);
  if (peers.empty()) return "";
  const bool has_stages =
      std::ranges::any_of(summaries, [](const auto& entry) { return entry.second->contains("layers"); });
  std::vector<Column> columns = {{"Peer"},  {"Split", true}, {"Compute"},     {"Waiting"}, {"Other"},
                                 {"Steps"}, {"Busy"},        {"Peak memory"}, {"Sent"}};
  if (has_stages) columns.push_back({"Holds", true});
  Table table(fmt::format("Peers of {}", report.runs[number].name), columns);
  const Json nothing = Json::object();
  for (std::size_t i = 0; i < std::min(peers.size(), kMostPeers); ++i) {
    const PeerLines& peer = peers[i];
    const auto found = summaries.find(peer.name);
    const Json& own = found == summaries.end() ? nothing : *found->second;
    std::vector<std::string> cells = {html_of(peer.name)};
    for (std::string& cell : split_html(peer.time)) cells.push_back(std::move(cell));
    cells.push_back(peer.steps > 0 ? fmt::format("{}", peer.steps) : nothing_html());
    cells.push_back(field_html(own, "busy_share", Unit::kShare));
    cells.push_back(field_html(own, "peak_memory_bytes", Unit::kBytes));
    cells.push_back(field_html(own, "bytes_sent", Unit::kBytes));
    if (has_stages) cells.push_back(place_html(own));
    table.add(cells);
  }
  const std::size_t more = peers.size() - std::min(peers.size(), kMostPeers);
  return table.html() + (more > 0 ? fmt::format("<p>And {} more.</p>\n", more) : "");
}

// What an event means that says nothing further.
std::string words_for(const std::string& event) {
  if (event == "lost") return "is gone";
  if (event == "returned") return "is back";
  if (event == "stands in") return "takes a place that nobody came for, beside its own";
  if (event == "restores") return "is given what belongs to its place";
  if (event == "restored") return "has what belongs to its place";
  return "";
}

// "3 rounds failed, 2 × lost; besides 2 × returned": nothing if all went well.
std::string counts_html(const RunFiles& run) {
  std::string out;
  const auto failed = run.outcome.find("rounds_failed");
  const bool has_failed = failed != run.outcome.end() && failed->is_number_integer() && *failed > 0;
  if (has_failed) out = fmt::format("{} rounds failed", failed->dump());
  std::string others;
  for (const auto& [event, times] : run.incidents_by_event) {
    if (has_failed && event == "round failed") continue;  // counted already
    std::string& counts = is_failure(event) ? out : others;
    counts += fmt::format("{}{} × {}", counts.empty() ? "" : ", ", times, html_of(event));
  }
  if (!others.empty()) out += (out.empty() ? "no failure, but " : "; besides ") + others;
  const auto more = run.incident_count() - static_cast<std::int64_t>(run.incidents.size());
  return more > 0 ? out + fmt::format("; the last {} are not shown", more) : out;
}

void add_incidents(Table& table, const Report& report, std::size_t number) {
  for (const Incident& incident : report.runs[number].files.incidents) {
    const std::string& text = incident.text;
    std::vector<std::string> cells = {
        std::isfinite(incident.seconds) ? fmt::format("<data value=\"{}\">{}</data>", Json(incident.seconds).dump(),
                                                      rounded(incident.seconds, Unit::kSeconds))
                                        : nothing_html(),
        fmt::format("{}", incident.step), incident.peer.empty() ? nothing_html() : html_of(incident.peer),
        fmt::format("<b>{}</b> {}", html_of(incident.event), html_of(text.empty() ? words_for(incident.event) : text))};
    if (report.runs.size() > 1) cells.insert(cells.begin() + 1, name_html(report, number));
    table.add(cells);
  }
}

}  // namespace

std::string time_section(const Report& report) {
  Table table("Where the time went, in the mean over peers",
              {{"Run"}, {"Split", true}, {"Compute"}, {"Waiting"}, {"Other"}});
  std::string peers;
  for (std::size_t i = 0; i < report.runs.size(); ++i) {
    std::vector<std::string> cells = {name_html(report, i)};
    for (std::string& cell : split_html(report.runs[i].files.time)) cells.push_back(std::move(cell));
    table.add(cells);
    peers += table_of_peers(report, i);
  }
  return section_html("time", "Time",
                      "<p class=\"legend\"><span class=\"compute\">compute</span> <span class=\"waiting\">waiting for "
                      "others</span> <span class=\"other\">other: evaluations, checkpoints, time away</span></p>\n" +
                          table.html() + peers);
}

std::string incidents_section(const Report& report) {
  std::vector<Column> columns = {{"Time"}, {"Step"}, {"Peer", true}, {"What happened", true}};
  if (report.runs.size() > 1) columns.insert(columns.begin() + 1, {.head_html = "Run", .is_text = true});
  Table table("Who was lost, and what became of it, from events.jsonl", columns);
  std::string all_counts;
  for (std::size_t i = 0; i < report.runs.size(); ++i) {
    add_incidents(table, report, i);
    const std::string counts = counts_html(report.runs[i].files);
    if (!counts.empty()) all_counts += fmt::format("<li>{}: {}</li>\n", name_html(report, i), counts);
  }
  if (all_counts.empty()) return section_html("failures", "Failures", "<p>None were recorded.</p>\n");
  return section_html("failures", "Failures",
                      fmt::format("<ul>\n{}</ul>\n{}", all_counts, table.is_empty() ? "" : table.html()));
}

}  // namespace rookery::observe::internal
