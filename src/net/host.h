#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "net/identity.h"
#include "net/line.h"
#include "net/link.h"
#include "net/transport.h"
#include "wire/ticket.h"

namespace rookery::net {

// Who is at the other end, as far as it has been proved.
struct Guest {
  std::string name;       // what it calls itself
  Fingerprint key;        // has proved to own it
  bool ticket = false;    // has proved to know the ticket's secret
  std::string address{};  // where it has dialled from, without a port; empty if the transport cannot tell
};

// Decides whether somebody who dials is let in. Throws LinkError with the reason to refuse; the guest is told.
using Doorkeeper = std::function<void(const Guest&)>;

// The secret of a ticket. Whoever knows it proves so without saying it, and for one connection only.
using TicketSecret = std::array<std::byte, 32>;

// The ticket that this peer has given out.
struct Admission {
  TicketSecret secret{};
  std::chrono::sys_seconds expires = std::chrono::sys_seconds::max();
};

struct HostOptions {
  std::string name;          // of this peer
  bool encrypt = true;       // with TLS; without, keys are still proved, but nothing is secret
  bool share_memory = true;  // with peers on the same computer, instead of sockets
  std::uint32_t lanes = 1;   // connections side by side in the links that this peer dials
  LineOptions shaping{};     // what is sent passes a line like this
  Duration heartbeat = std::chrono::milliseconds(250);  // as in LinkOptions
  Duration silence = std::chrono::seconds(10);
  Duration handshake = std::chrono::seconds(10);  // for all of it
  // Connections at a time that have not proved anything yet: all, and from one address. A newcomer takes the place of
  // the oldest, so that those who say nothing keep nobody out.
  std::size_t unproved = 64;
  std::size_t unproved_by_address = 16;
  // Links that nobody has accepted yet. Here, too, the oldest goes.
  std::size_t unaccepted = 256;
  std::optional<Admission> admission{};  // whose ticket guests may prove to have
};

struct Meeting {
  std::unique_ptr<Link> link;
  Guest other;
};

// This peer on the network: makes links, to those it dials and from those who dial it. Every link is authenticated:
// both ends prove their keys, bound to this very connection. Confined to one executor; clock and transport outlive it.
class Host {
 public:
  Host(Clock& clock, Transport& transport, Identity identity, HostOptions options);
  ~Host();
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  const Identity& identity() const;
  const HostOptions& options() const;

  // Starts to let others in. Whoever breaks the rules, takes too long or is refused is logged and forgotten. Throws
  // InputError if the address cannot be used. Requires: was not called before.
  void listen(const std::string& address, Doorkeeper doorkeeper);
  const std::string& address() const;  // Requires: listens

  // The next link that somebody else has made. Throws LinkError once the host is closed.
  Task<Meeting> accept();

  // A link to whoever listens at the address. `key`: only if it is this one; `ticket`: proves to know it. Throws
  // LinkError: unreachable, refused (with the reason it gave), or late.
  Task<Meeting> dial(std::string address, std::optional<Fingerprint> key,
                     std::optional<TicketSecret> ticket = std::nullopt);

  // A link to whoever has given out the ticket, at the first of its addresses that answers.
  Task<Meeting> dial(wire::Ticket ticket);

  void close();

 private:
  class Core;
  std::shared_ptr<Core> core_;
};

}  // namespace rookery::net
