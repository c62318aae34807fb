#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/units.h"
#include "net/host.h"
#include "net/link.h"
#include "net/transport.h"
#include "wire/contact.h"

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

// A guest's side. Confined to the executor of the link, which it keeps.
class RelayGuest {
 public:
  // Called when another guest asks to be dialled.
  using DialRequest = std::function<void(const wire::Contact&)>;

  RelayGuest(Clock& clock, std::shared_ptr<Link> link, DialRequest on_request);
  ~RelayGuest();
  RelayGuest(const RelayGuest&) = delete;
  RelayGuest& operator=(const RelayGuest&) = delete;

  // Connections through the relay. An address is a fingerprint in hexadecimal digits; whoever listens hears all calls
  // to this guest. Bare as they are, they pass a third peer: only encrypted ones are of use.
  Transport& transport();

  // Asks another guest to dial one of the addresses. If it can, a link arrives there, and nothing here; this ends when
  // it is known that it cannot, or at the deadline, with the reason.
  Task<LinkError> ask_to_dial(Fingerprint whom, std::vector<std::string> addresses, Time deadline);

  // The answer to a request that could not be fulfilled.
  void could_not_dial(const Fingerprint& whom, const std::string& why);

 private:
  class Core;
  std::shared_ptr<Core> core_;
};

}  // namespace rookery::net
