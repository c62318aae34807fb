#pragma once

#include <memory>

#include "base/clock.h"
#include "net/identity.h"
#include "net/pipe.h"

namespace rookery::net {

enum class TlsRole { kClient, kServer };

// A pipe whose bytes are encrypted and authenticated by TLS 1.3. Both ends show their keys; whether the other's is the
// right one is for the caller to say.
struct SecurePipe {
  std::unique_ptr<Pipe> pipe;
  Fingerprint other;  // has proved to own this key

  // 32 bytes that both ends of this very connection know, and nobody else: what is proved over them holds here only.
  std::array<std::byte, 32> binding;
};

// Makes the handshake over a connected pipe. Throws LinkError if it fails, or is not done by the deadline.
Task<SecurePipe> secure(Clock& clock, std::unique_ptr<Pipe> inner, const Identity& identity, TlsRole role,
                        Time deadline);

}  // namespace rookery::net
