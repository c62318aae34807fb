#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "net/host.h"
#include "net/relay_guest.h"
#include "wire/contact.h"

namespace rookery::net {

// How two peers got connected.
enum class Way {
  kDirect,   // the one that wanted to has dialled the other
  kReverse,  // it could not, and has asked the other to dial
  kRelay,    // neither could dial the other
};

std::string_view name_of(Way way);

struct Connection {
  Meeting meeting;
  Way way = Way::kDirect;
};

// Makes links to other peers in whichever way there is. Of two peers, one connects and the other accepts; which, is up
// to them, and has nothing to do with who of them can be dialled.
//
// Confined to one executor. The host outlives it, and what arrives there is taken by it.
class Connector {
 public:
  // `own_addresses`: where others might dial this peer. None: nowhere. `doorkeeper`: decides about everybody who wants
  // a link with this peer; those who dial it themselves have passed the host's own before.
  Connector(Clock& clock, Host& host, std::vector<std::string> own_addresses, Doorkeeper doorkeeper);
  ~Connector();
  Connector(const Connector&) = delete;
  Connector& operator=(const Connector&) = delete;

  // From now on calls go through the peer at the other end of this link, too, and no more through the one before.
  void use_relay(std::shared_ptr<Link> relay);

  // Dials the other at its addresses, one after another; failing that, asks it to dial this peer; failing that, calls
  // it through the relay. Throws LinkError that says what failed, and why. Requires: no other connect() to this peer is
  // running.
  Task<Connection> connect(wire::Contact other);

  // The next link that somebody else wanted. Throws LinkError once the host is closed, at the deadline, and if it waits
  // when stop_accepting() is called.
  Task<Connection> accept(Time deadline = kNever);
  void stop_accepting();

 private:
  class Core;
  std::shared_ptr<Core> core_;
};

}  // namespace rookery::net
