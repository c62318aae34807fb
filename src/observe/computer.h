#pragma once

#include <string>

namespace rookery::observe {

// This computer in a few words, for people: "AMD EPYC 7543, 2 cores, 23.4 GiB".
std::string describe_computer();

}  // namespace rookery::observe
