#pragma once

#include <string>

#include "observe/report.h"

// The sections of a report, each of which is empty if there is nothing to say.
namespace rookery::observe::internal {

// What each run came to: summary.json as a table.
std::string summary_section(const Report& report);

// In which settings runs differ from each other; a run alone, from the defaults. All of them are there to be opened.
std::string settings_section(const Report& report);

// How long a step was expected to take, and took.
std::string prediction_section(const Report& report);

// All evaluations as numbers, for those who cannot use a picture.
std::string evaluations_html(const Report& report);

// Where the time of runs and of their peers went.
std::string time_section(const Report& report);

// Who was lost, and what became of it.
std::string incidents_section(const Report& report);

// The name of a run, with a dot in the colour of its curves if there are several.
std::string name_html(const Report& report, std::size_t run);

}  // namespace rookery::observe::internal
