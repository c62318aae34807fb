#pragma once

#include "base/subprocess.h"
#include "measure/bench.h"

namespace rookery::measure {

// How long the parts of a benchmark that are not measured may take.
inline constexpr std::chrono::seconds kPatience{60};

std::string peer_name(std::size_t rank);

// A peer's life in a benchmark, in a process of its own: says where it can be reached, hears where the others are,
// links, measures, reports, and waits to be told to end. Returns the exit code.
int run_peer(ControlSocket& control, const BenchOptions& options, std::size_t rank);

}  // namespace rookery::measure
