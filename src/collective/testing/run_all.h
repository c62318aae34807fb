#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include "base/virtual_world.h"
#include "net/error.h"

namespace rookery::collective::testing {

// Runs `task(rank)` for every peer to its end; an entry for each: nothing if it went well.
using Outcome = std::optional<net::LinkError>;
std::vector<Outcome> run_all(VirtualWorld& world, std::size_t peers, const std::function<Task<>(std::size_t)>& task,
                             Time limit);

}  // namespace rookery::collective::testing
