#pragma once

#include <cstdint>
#include <memory>

#include "base/clock.h"
#include "base/units.h"
#include "net/host.h"
#include "net/link.h"

namespace rookery::net {

// Peers that nobody can dial (home networks) reach each other through one that both have dialled: the relay. It carries
// what they say, which is encrypted end to end, and passes on requests to be dialled.

struct RelayOptions {
  std::size_t calls = 256;          // at a time, of all guests
  std::size_t calls_by_guest = 32;  // that one guest has made
  BitsPerSecond bandwidth = 0;      // of everything that is relayed; 0: no limit
};

// Each call holds a megabyte in each direction at most.
struct RelayStatistics {
  std::uint64_t calls = 0;    // that were put through
  std::uint64_t refused = 0;  // that were not
  std::uint64_t bytes = 0;
  std::size_t running = 0;  // calls now
};

// The relay's side. Confined to one executor.
class Relay {
 public:
  Relay(Clock& clock, RelayOptions options);
  ~Relay();
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  // Serves a guest for as long as its link lasts, which is up to others. A guest that breaks the rules loses its link.
  void serve(const std::shared_ptr<Link>& link, const Guest& guest);

  RelayStatistics statistics() const;

 private:
  class Core;
  std::shared_ptr<Core> core_;
};

}  // namespace rookery::net
