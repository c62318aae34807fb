#pragma once

#include <initializer_list>
#include <vector>

#include <boost/asio/local/stream_protocol.hpp>

#include "base/task.h"
#include "net/shm/descriptor.h"

namespace rookery::net {

using UnixSocket = boost::asio::basic_stream_socket<boost::asio::local::stream_protocol, Executor>;

namespace internal {

// What goes over the Unix socket beside the rings: descriptors, one byte for each parcel of them. Nothing here waits.
// When the other end closes, its process has gone.

// False if the other end is gone, or takes nothing. Requires: 1 to 3 of them
bool hand_over(UnixSocket& socket, std::initializer_list<const Descriptor*> descriptors);

// The next parcel; empty if none is there now. Throws LinkError if the other end is gone, or sends anything else.
std::vector<Descriptor> take_parcel(UnixSocket& socket);

// Wakes another process. An eventfd and not the socket itself: a wake-up through a socket tells the system that the one
// who wakes is about to sleep, and both end up on one processor.
Descriptor make_bell();

// Throws LinkError unless a descriptor that was handed over is a bell.
void check_bell(const Descriptor& bell);

void ring(const Descriptor& bell);
void silence(const Descriptor& bell);  // until it is rung again

}  // namespace internal
}  // namespace rookery::net
