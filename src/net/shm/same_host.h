#pragma once

#include <memory>
#include <string>

#include "base/clock.h"
#include "net/shm/shm_pipe.h"

namespace rookery::net {

// A word that is equal for two processes exactly if they can hand memory to each other: the same running system, and
// the same network namespace.
std::string same_host_id();

// Where a process of this host can pick up shared memory, once: a Unix socket with a name that nobody else knows, and a
// token that it says first. Both are told over a connection that has been authenticated.
class SharedMemoryOffer {
 public:
  explicit SharedMemoryOffer(Clock& clock);
  ~SharedMemoryOffer();

  const std::string& name() const { return name_; }
  const std::array<std::byte, 16>& token() const { return token_; }

  // Waits for whoever has the token. Throws LinkError if it does not come by the deadline.
  Task<std::unique_ptr<Pipe>> hand_over(Time deadline);

 private:
  struct Socket;

  Clock& clock_;
  std::string name_;
  std::array<std::byte, 16> token_;
  std::unique_ptr<Socket> socket_;
};

// Picks up what was offered. Throws LinkError.
Task<std::unique_ptr<Pipe>> pick_up_shared_memory(Clock& clock, std::string name, std::array<std::byte, 16> token,
                                                  Time deadline);

}  // namespace rookery::net
