#pragma once

#include <memory>
#include <optional>

#include "net/host.h"
#include "net/pipe.h"
#include "wire/handshake.h"

namespace rookery::net::internal {

// What the other end of a connection has said, and proved.
struct Proved {
  wire::Hello hello;
  Guest guest;
};

// The next message of a handshake. Throws LinkError: what it says, if it is a refusal; kProtocol if it is another than
// `Wanted`, or none.
template <typename Wanted>
Task<Wanted> read_handshake(Pipe& pipe);

Task<> write_handshake(Pipe& pipe, wire::HandshakeMessage message);

// The two sides of proving who one is, over a bare connection: TLS if wanted (`pipe` is then the encrypted one),
// hellos, proofs. The dialler then waits for a welcome, and the other end owes it one, or a refusal. Throws LinkError,
// also when the deadline passes.
Task<Proved> introduce_dialler(Clock& clock, std::unique_ptr<Pipe>& pipe, const Identity& identity, bool encrypt,
                               wire::Hello own, std::optional<Fingerprint> wanted, std::optional<TicketSecret> ticket,
                               Time deadline);
Task<Proved> introduce_listener(Clock& clock, std::unique_ptr<Pipe>& pipe, const Identity& identity, bool encrypt,
                                wire::Hello own, std::optional<TicketSecret> ticket, Time deadline);

}  // namespace rookery::net::internal
