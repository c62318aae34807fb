#pragma once

#include <string>
#include <vector>

#include "dashboard/view.h"

namespace rookery::dashboard {

// What brief_of() says, for a terminal: a line each, none longer than so many columns, and at most so many lines. What
// others have chosen is shown without anything that a terminal would obey. Damaged input gives an incomplete picture,
// never an error.
std::vector<std::string> lines_of(const Json& brief, std::size_t columns, std::size_t most_lines);

// The same of what is known of one peer, with the last lines of its log.
std::vector<std::string> lines_of_peer(const Json& brief, const std::string& name, std::size_t columns,
                                       std::size_t most_lines);

}  // namespace rookery::dashboard
