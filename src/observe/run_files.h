#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "observe/metrics.h"
#include "observe/series.h"

namespace rookery::observe {

// Where the time of a run or a peer went, in seconds.
struct TimeSplit {
  double compute = 0;
  double waiting = 0;  // for others
  double whole = 0;    // from the first step to the last

  double other() const;  // evaluations, checkpoints, time away
};

// Something that is not part of every run, such as a peer that was lost: a line of events.jsonl.
struct Incident {
  double seconds = 0;
  std::int64_t step = 0;
  std::string event{}, peer{}, text{};  // peer and text may be empty
};

// Whether such an event is a failure; else it is what became of one, or was wanted.
bool is_failure(std::string_view event);

// What peers/NAME.jsonl says of a peer.
struct PeerLines {
  std::string name{};
  std::int64_t steps = 0;  // that it has done
  TimeSplit time{};
};

// What the files of a run say about it, also while it goes on.
struct RunFiles {
  std::filesystem::path root{};

  // From metrics.jsonl. A quantity that was no number after a step is NaN there.
  std::int64_t last_step = 0;  // 0 if none was done
  std::int64_t steps_without_loss = 0;
  Series loss{}, eval_loss{}, eval_accuracy{}, step_seconds{}, tokens{}, consensus_distance{}, drift{};
  TimeSplit time{};                 // mean over peers
  std::set<std::string> metrics{};  // the names of all that some line has

  // From summary.json. If there is none, as far as metrics.jsonl says the same, under the same names.
  bool has_summary = false;
  nlohmann::json outcome = nlohmann::json::object();

  std::vector<PeerLines> peers{};  // by name; empty in a run of one peer

  // From events.jsonl, all but what happens in every run. Of many, the first kMostIncidents.
  static constexpr std::size_t kMostIncidents = 500;
  std::vector<Incident> incidents{};
  std::map<std::string, std::int64_t> incidents_by_event{};  // all
  std::int64_t incident_count() const;
  std::int64_t failure_count() const;  // of them
};

// Reads a run's directory, line by line: however long the run was, this takes a megabyte or two. A last line that is
// torn is left out. metrics.jsonl must be there, everything else may be missing.
//
// Throws InputError, one sentence that names the file, and the line if it is one, when something cannot be read or is
// not what such a file holds.
RunFiles read_run(const std::filesystem::path& root);

// The steps in a metrics.jsonl, one after another. Throws likewise.
void read_metrics(const std::filesystem::path& path, const std::function<void(const StepMetrics& step)>& take);

// A line of metrics.jsonl or peers/NAME.jsonl, as an object with a whole number as "step". Throws InputError naming the
// line if it is no such object.
nlohmann::json parse_metrics(std::string_view line, const std::filesystem::path& path, std::int64_t number);

}  // namespace rookery::observe
