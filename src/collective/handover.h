#pragma once

#include <chrono>
#include <vector>

#include "base/clock.h"
#include "net/link.h"

namespace rookery::collective {

struct HandoverOptions {
  std::size_t chunk_bytes = 256 * 1024;       // the same at both ends
  Duration stall = std::chrono::seconds(30);  // how long nothing may move
};

// Values go from one peer to another: both call this with the same channel, at any time. Throws LinkError if the other
// one fails, or is late. On the link's executor.
Task<> hand_on(Clock& clock, net::Link& to, net::ChannelId channel, std::vector<float> values, HandoverOptions options);
Task<std::vector<float>> take_on(Clock& clock, net::Link& from, net::ChannelId channel, std::size_t values,
                                 HandoverOptions options);

}  // namespace rookery::collective
