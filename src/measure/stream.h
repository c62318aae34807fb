#pragma once

#include <cstddef>
#include <span>

#include "net/channel.h"

namespace rookery::measure {

// One way over a channel, as fast as it goes: messages of `piece` bytes, many on their way at a time, and an empty one
// back when all have come. Both ends pass the same sizes. Throw LinkError.
Task<> send_stream(net::Channel& channel, net::ConstBytes bytes, std::size_t piece);
Task<> receive_stream(net::Channel& channel, net::MutableBytes bytes, std::size_t piece);

}  // namespace rookery::measure
