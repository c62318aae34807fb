#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "net/identity.h"
#include "net/link.h"
#include "net/transport.h"
#include "wire/contact.h"

namespace rookery::net {

// A guest's side of a relay (relay.h). Confined to the executor of the link, which it keeps.
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
