#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "observe/plot.h"
#include "observe/run_files.h"

namespace rookery::observe {

// Keys and values as in a settings file: "train.lr", "0.001".
using KeyValues = std::vector<std::pair<std::string, std::string>>;

struct ReportedRun {
  std::string name{};  // no other run of the report has it
  RunFiles files{};
  KeyValues settings{};
};

// One run, or several laid over each other.
struct Report {
  std::vector<ReportedRun> runs{};
  KeyValues defaults{};  // of the settings
};

// Names for runs in these folders: their last parts, as many as it takes to tell them apart; for what is left, numbers.
std::vector<std::string> distinct_names(const std::vector<std::filesystem::path>& roots);

// How the run ended, or how far it has come: "finished after 300 steps".
std::string state_of(const ReportedRun& run);

// Loss and evaluations by step, by time and by samples; step time, tokens per second, and how far copies were apart.
// Those of which no run knows anything are left out. Each run has the same colour everywhere if there are several.
std::vector<Chart> charts_of(const Report& report);

// A page that needs nothing else: no scripts, nothing that is fetched. Light or dark as its reader's computer is, for
// screens of any width and for paper. The same report gives the same bytes. Any text in it is fine, also from others.
//
// Numbers are those of the files, to the last digit. What is derived from them (shares, sums, errors) is rounded.
std::string to_html(const Report& report);

// Writes the lines of metrics.jsonl of all runs as one table of comma-separated values, as the files have them now: the
// column "run", then a column for each metric. What a line does not have, or is null, is empty.
// Throws InputError naming the file if one cannot be read or written.
void write_csv(const Report& report, const std::filesystem::path& path);

}  // namespace rookery::observe
