#pragma once

#include <memory>
#include <string>

#include "base/clock.h"
#include "net/pipe.h"

namespace rookery::net {

// Waits for others to dial. Confined to one executor; close() ends accept().
class Listener {
 public:
  virtual ~Listener() = default;

  // The next connection. Throws LinkError once the listener is closed.
  virtual Task<std::unique_ptr<Pipe>> accept() = 0;

  virtual const std::string& address() const = 0;  // where others reach it
  virtual void close() = 0;
};

// A way to get connected: sockets, or the virtual world. Pipes that it makes are bare: nobody has proved who they are.
// Confined to one executor.
class Transport {
 public:
  virtual ~Transport() = default;

  // Throws InputError if the address is none, or cannot be used.
  virtual std::unique_ptr<Listener> listen(const std::string& address) = 0;

  // Throws LinkError if nobody answers there by the deadline, and InputError if the address is none.
  virtual Task<std::unique_ptr<Pipe>> dial(std::string address, Time deadline) = 0;
};

}  // namespace rookery::net
