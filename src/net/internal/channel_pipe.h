#pragma once

#include <memory>

#include "base/clock.h"
#include "net/channel.h"
#include "net/pipe.h"

namespace rookery::net::internal {

// A pipe that is carried by a channel of a link, for connections through a third peer. It holds a few messages for each
// direction; closing waits a moment for what was written. Requires: the channel was opened with kChannelPipeBudget, at
// both ends.
std::unique_ptr<Pipe> make_channel_pipe(Clock& clock, std::unique_ptr<Channel> channel);

inline constexpr std::size_t kChannelPipeBudget = 1 << 20;

}  // namespace rookery::net::internal
