#pragma once

#include <string>
#include <vector>

#include "dashboard/view.h"

namespace rookery::dashboard {

// What brief_of() says, for a terminal: a line each, none longer than so many columns, and at most so many lines. What
// others have chosen is shown without anything that a terminal would obey. Damaged input gives an incomplete picture,
// never an error.
std::vector<std::string> lines_of(const Json& brief, std::size_t columns, std::size_t most_lines);

}  // namespace rookery::dashboard
