#pragma once

#include <span>
#include <string>
#include <string_view>

namespace rookery {

// "; did you mean 'width'?" with the name nearest to what was written, or "" if none is near. For error messages.
std::string did_you_mean(std::string_view written, std::span<const std::string> known);

}  // namespace rookery
