#pragma once

#include <memory>

#include "base/clock.h"
#include "net/pipe.h"
#include "net/shm/side_line.h"

namespace rookery::net {

// A pipe between two processes of one host: rings in shared memory that are small enough to stay in the cache. Nobody
// spins for longer than a moment; a sleeper is woken through an eventfd. The Unix socket over which the memory is
// handed stays open: when its other end goes, so has the process.

// Makes the memory and hands it over. Throws LinkError if the other end is gone.
std::unique_ptr<Pipe> offer_shm_pipe(UnixSocket socket);

// Takes what the other end offers, by the deadline. Throws LinkError if that is not what it should be.
Task<std::unique_ptr<Pipe>> accept_shm_pipe(Clock& clock, UnixSocket socket, Time deadline);

}  // namespace rookery::net
