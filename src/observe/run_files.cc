#include "observe/run_files.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "base/file.h"
#include "observe/internal/lines.h"

namespace rookery::observe {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;  // the ordered one copies what it has parsed, as deep as that may be

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr Bytes kMostSummaryBytes = Bytes{16} << 20;
constexpr std::size_t kMostMetrics = 200, kMostKindsOfEvents = 50, kLongestText = 2000;

// What happens in every run that nothing happens to.
constexpr std::array<std::string_view, 5> kOrdinary = {"joined", "ready", "planned", "began", "checkpoint"};

constexpr std::array<std::string_view, 5> kFailures = {"lost", "round failed", "stuck", "expelled", "failed"};

// Where a line stands, for those who have to mend it.
struct Place {
  const fs::path& path;
  std::int64_t number;
};

// Nothing if there is no such field, NaN if it is null.
std::optional<double> number_in(const Json& object, const char* name, const Place& place) {
  const auto field = object.find(name);
  if (field == object.end()) return std::nullopt;
  if (field->is_null()) return kNan;
  if (field->is_number()) return field->get<double>();
  throw InputError("{}:{}: \"{}\" is not a number", place.path.string(), place.number, name);
}

void add_if_finite(double& sum, std::optional<double> number) {
  if (number && std::isfinite(*number)) sum += *number;
}

// Adds a step to where time went. A run of one peer does not say how long it computed: all the time.
void add_step(TimeSplit& time, const Json& line, const Place& place) {
  const auto compute = number_in(line, "compute_seconds", place);
  add_if_finite(time.compute, compute ? compute : number_in(line, "step_seconds", place));
  add_if_finite(time.waiting, number_in(line, "wait_seconds", place));
}

// A number under a name that any table can have as a heading.
bool is_metric(const std::string& name, const Json& value) {
  const auto is_fine = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  return !name.empty() && std::ranges::all_of(name, is_fine) &&
         (value.is_number() || value.is_boolean() || value.is_null());
}

class MetricsReader {
 public:
  explicit MetricsReader(RunFiles& run) : run_(run), path_(run.root / "metrics.jsonl") {}

  void read() {
    internal::for_each_line(path_, [&](std::string_view line, std::int64_t number) {
      take(parse_metrics(line, path_, number), {path_, number});
    });
  }

 private:
  void take(const Json& line, const Place& place) {
    const Point at{.step = line["step"].get<std::int64_t>(),
                   .seconds = number_in(line, "seconds", place).value_or(kNan),
                   .samples = number_in(line, "samples", place).value_or(kNan)};
    run_.last_step = at.step;
    run_.time.whole = std::isfinite(at.seconds) ? at.seconds : run_.time.whole;
    add_step(run_.time, line, place);
    const auto loss = number_in(line, "loss", place);
    if (!loss || !std::isfinite(*loss)) ++run_.steps_without_loss;
    const auto add = [&](Series& series, const char* name) {
      Point point = at;
      const auto value = number_in(line, name, place);
      if (!value) return;
      point.value = *value;
      series.add(point);
    };
    add(run_.loss, "loss");
    add(run_.eval_loss, "eval_loss");
    add(run_.eval_accuracy, "eval_accuracy");
    add(run_.step_seconds, "step_seconds");
    add(run_.tokens, "tokens");
    add(run_.consensus_distance, "consensus_distance");
    add(run_.drift, "drift");
    note_metrics(line, place);
    note_outcome(line);
  }

  void note_metrics(const Json& line, const Place& place) {
    for (const auto& [name, value] : line.get_ref<const Json::object_t&>()) {
      if (!run_.metrics.contains(name) && is_metric(name, value)) run_.metrics.insert(name);
    }
    if (run_.metrics.size() > kMostMetrics) {
      throw InputError("{}:{}: has more than {} different metrics", place.path.string(), place.number, kMostMetrics);
    }
  }

  // What a summary would say if the run had ended here.
  void note_outcome(const Json& line) {
    constexpr std::array<std::pair<const char*, const char*>, 8> kNames = {
        {{"loss", "final_loss"},
         {"eval_loss", "eval_loss"},
         {"eval_accuracy", "eval_accuracy"},
         {"step", "steps"},
         {"samples", "samples"},
         {"tokens", "tokens"},
         {"seconds", "wall_seconds"},
         {"consensus_distance", "consensus_distance"}}};
    for (const auto& [here, there] : kNames) {
      if (const auto field = line.find(here); field != line.end()) run_.outcome[there] = *field;
    }
  }

  RunFiles& run_;
  fs::path path_;
};

void read_summary(RunFiles& run) {
  const fs::path path = run.root / "summary.json";
  if (!fs::exists(path)) return;
  Json summary = Json::parse(read_file(path, kMostSummaryBytes), nullptr, /*allow_exceptions=*/false);
  if (!summary.is_object()) throw InputError("{}: is not a JSON object", path.string());
  run.has_summary = true;
  run.outcome = std::move(summary);
}

PeerLines read_peer(const fs::path& path) {
  PeerLines peer{.name = path.stem().string()};
  std::optional<double> begin;
  double end = 0;
  internal::for_each_line(path, [&](std::string_view text, std::int64_t number) {
    const Place place{path, number};
    const Json line = parse_metrics(text, path, number);
    add_step(peer.time, line, place);
    const double seconds = number_in(line, "seconds", place).value_or(kNan);
    if (std::isfinite(seconds)) {
      end = seconds;
      if (!begin) begin = seconds - number_in(line, "step_seconds", place).value_or(0);
    }
    ++peer.steps;
  });
  peer.time.whole = end - begin.value_or(end);
  return peer;
}

void read_peers(RunFiles& run) {
  const fs::path folder = run.root / "peers";
  if (!fs::is_directory(folder)) return;
  std::set<fs::path> paths;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".jsonl") paths.insert(entry.path());
  }
  for (const fs::path& path : paths) run.peers.push_back(read_peer(path));
}

std::int64_t whole_in(const Json& object, const char* name) {
  const auto field = object.find(name);
  return field != object.end() && field->is_number_integer() ? field->get<std::int64_t>() : 0;
}

// At most so much that a table can show it.
std::string text_in(const Json& object, const char* name) {
  const auto field = object.find(name);
  if (field == object.end() || !field->is_string()) return "";
  auto text = field->get<std::string>();
  if (text.size() <= kLongestText) return text;
  std::size_t end = kLongestText;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;  // not within a character
  return text.substr(0, end) + "…";
}

void read_events(RunFiles& run) {
  const fs::path path = run.root / "events.jsonl";
  if (!fs::exists(path)) return;
  internal::for_each_line(path, [&](std::string_view line, std::int64_t number) {
    const Json object = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!object.is_object() || !object.contains("event") || !object["event"].is_string()) {
      throw InputError("{}:{}: is not an event (a JSON object with a text as \"event\")", path.string(), number);
    }
    const Place place{path, number};
    Incident incident{.seconds = number_in(object, "seconds", place).value_or(kNan),
                      .step = whole_in(object, "step"),
                      .event = text_in(object, "event"),
                      .peer = text_in(object, "peer"),
                      .text = text_in(object, "text")};
    if (std::ranges::find(kOrdinary, incident.event) != kOrdinary.end()) return;
    const bool is_counted = run.incidents_by_event.contains(incident.event);
    const bool has_room = run.incidents_by_event.size() < kMostKindsOfEvents || is_failure(incident.event);
    ++run.incidents_by_event[is_counted || has_room ? incident.event : "other"];
    if (run.incidents.size() < RunFiles::kMostIncidents) run.incidents.push_back(std::move(incident));
  });
}

}  // namespace

double TimeSplit::other() const { return std::max(0.0, whole - compute - waiting); }

bool is_failure(std::string_view event) { return std::ranges::find(kFailures, event) != kFailures.end(); }

std::int64_t RunFiles::failure_count() const {
  std::int64_t count = 0;
  for (const auto& [event, times] : incidents_by_event) count += is_failure(event) ? times : 0;
  return count;
}

std::int64_t RunFiles::incident_count() const {
  std::int64_t count = 0;
  for (const auto& [event, times] : incidents_by_event) count += times;
  return count;
}

Json parse_metrics(std::string_view line, const fs::path& path, std::int64_t number) {
  Json object = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (object.is_object()) {
    const auto step = object.find("step");
    if (step != object.end() && step->is_number_integer()) return object;
  }
  throw InputError("{}:{}: is not a line of metrics (a JSON object with a whole number as \"step\")", path.string(),
                   number);
}

void read_metrics(const fs::path& path, const std::function<void(const StepMetrics& step)>& take) {
  internal::for_each_line(path, [&](std::string_view text, std::int64_t number) {
    const Json line = parse_metrics(text, path, number);
    const Place place{path, number};
    const auto get = [&](const char* name) { return number_in(line, name, place); };
    const auto whole = [&](const char* name) {
      const double value = get(name).value_or(0);
      return std::abs(value) < 1e18 ? static_cast<std::int64_t>(value) : 0;
    };
    StepMetrics step{.step = line["step"].get<std::int64_t>(),
                     .loss = get("loss").value_or(kNan),
                     .seconds = get("seconds").value_or(kNan),
                     .step_seconds = get("step_seconds").value_or(kNan),
                     .samples = whole("samples"),
                     .tokens = whole("tokens"),
                     .lr = get("lr").value_or(kNan),
                     .grad_norm = get("grad_norm").value_or(kNan),
                     .eval_loss = get("eval_loss"),
                     .eval_accuracy = get("eval_accuracy")};
    if (const auto compute = get("compute_seconds")) {
      step.together = {.compute_seconds = *compute,
                       .wait_seconds = get("wait_seconds").value_or(0),
                       .bytes_sent = whole("bytes_sent"),
                       .bytes_received = whole("bytes_received")};
    }
    step.consensus_distance = get("consensus_distance");
    step.drift = get("drift");
    if (get("staleness_max")) step.staleness_max = whole("staleness_max");
    take(step);
  });
}

RunFiles read_run(const fs::path& root) {
  RunFiles run{.root = root};
  MetricsReader(run).read();
  read_summary(run);
  read_peers(run);
  read_events(run);
  return run;
}

}  // namespace rookery::observe
