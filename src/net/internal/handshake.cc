#include "net/internal/handshake.h"

#include <algorithm>
#include <string_view>

#include <openssl/crypto.h>
#include <openssl/hmac.h>
#include <openssl/sha.h>

#include "net/error.h"
#include "net/tls/tls_pipe.h"

namespace rookery::net::internal {
namespace {

using Digest = std::array<std::byte, 32>;

Task<> read_exactly(Pipe& pipe, MutableBytes into) {
  while (!into.empty()) {
    const std::size_t n = pipe.read(into);
    into = into.subspan(n);
    if (n > 0) continue;
    auto readable = pipe.readable();
    co_await std::move(readable);
  }
}

Task<wire::HandshakeMessage> read_any(Pipe& pipe) {
  std::array<std::byte, wire::kPreambleBytes> preamble_bytes;
  auto reading = read_exactly(pipe, preamble_bytes);
  co_await std::move(reading);
  try {
    const wire::Preamble preamble = wire::decode_preamble(preamble_bytes);
    wire::Bytes content(preamble.length);
    auto rest = read_exactly(pipe, content);
    co_await std::move(rest);
    co_return wire::decode_handshake(preamble.kind, content);
  } catch (const wire::WireError& error) {
    throw LinkError(Failure::kProtocol, "", error.what());
  }
}

// What both ends know of this connection once they have said hello: nobody who sits between them sees the same.
Digest transcript(const std::array<std::byte, 32>& binding, wire::Hello dialler, wire::Hello listener) {
  dialler.signature.clear();
  listener.signature.clear();
  wire::Bytes all(binding.begin(), binding.end());
  for (const wire::Bytes& part : {wire::encode(dialler), wire::encode(listener)}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  Digest digest;
  SHA256(reinterpret_cast<const unsigned char*>(all.data()), all.size(),
         reinterpret_cast<unsigned char*>(digest.data()));
  return digest;
}

// What is signed, or keyed: the transcript, and who says it, so that nobody's words can be said back to it.
wire::Bytes statement(std::string_view role, const Digest& transcript) {
  wire::Bytes bytes;
  for (const char c : role) bytes.push_back(static_cast<std::byte>(c));
  bytes.insert(bytes.end(), transcript.begin(), transcript.end());
  return bytes;
}

wire::Bytes signed_statement(const Identity& identity, std::string_view role, const Digest& transcript) {
  const Identity::Signature signature = identity.sign(statement(role, transcript));
  return {signature.begin(), signature.end()};
}

wire::Bytes ticket_proof(const TicketSecret& secret, const Digest& transcript) {
  const wire::Bytes bytes = statement("ticket", transcript);
  wire::Bytes mac(32);
  unsigned size = 0;
  HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
       reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), reinterpret_cast<unsigned char*>(mac.data()),
       &size);
  return mac;
}

bool equal_in_constant_time(const wire::Bytes& a, const wire::Bytes& b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

// Closes the pipe at the deadline, so that whoever waits for it fails.
class Deadline {
 public:
  Deadline(Clock& clock, Pipe& pipe, Time when) : alarm_(clock) {
    alarm_.set(when, [this, &pipe] {
      passed_ = true;
      pipe.close();
    });
  }
  bool passed() const { return passed_; }

 private:
  bool passed_ = false;
  Alarm alarm_;
};

LinkError too_late() { return LinkError(Failure::kLate, "", "did not finish the handshake in time"); }

// What TLS has proved, if it is used.
struct Security {
  std::optional<Fingerprint> key;
  std::array<std::byte, 32> binding{};
};

Task<Security> encrypt_if(bool encrypt, Clock& clock, std::unique_ptr<Pipe>& pipe, const Identity& identity,
                          TlsRole role, Time deadline) {
  if (!encrypt) co_return Security{};
  auto securing = secure(clock, std::move(pipe), identity, role, deadline);
  SecurePipe secured = co_await std::move(securing);
  pipe = std::move(secured.pipe);
  co_return Security{.key = secured.other, .binding = secured.binding};
}

// The key that a hello claims is proved by TLS, or by a signature.
Fingerprint proved_key(const Security& security, const wire::Hello& hello, const wire::Bytes& signature,
                       std::string_view role, const Digest& transcript) {
  const Fingerprint claimed = fingerprint_of(hello.public_key);
  const bool proved =
      security.key ? *security.key == claimed : is_signed_by(hello.public_key, statement(role, transcript), signature);
  if (!proved) throw LinkError(Failure::kRefused, "", "claims a key that it cannot prove to own");
  return claimed;
}

constexpr std::string_view kDialler = "dialler", kListener = "listener";

}  // namespace

template <typename Wanted>
Task<Wanted> read_handshake(Pipe& pipe) {
  auto reading = read_any(pipe);
  wire::HandshakeMessage message = co_await std::move(reading);
  if (auto* wanted = std::get_if<Wanted>(&message)) co_return std::move(*wanted);
  if (const auto* refusal = std::get_if<wire::Refusal>(&message)) {
    const bool known = refusal->failure <= static_cast<std::uint16_t>(Failure::kCancelled);
    throw LinkError(known ? Failure{refusal->failure} : Failure::kRefused, "", refusal->text);
  }
  throw LinkError(Failure::kProtocol, "", "says something else in a handshake than it should");
}

template Task<wire::Hello> read_handshake<wire::Hello>(Pipe&);
template Task<wire::Proof> read_handshake<wire::Proof>(Pipe&);
template Task<wire::Welcome> read_handshake<wire::Welcome>(Pipe&);

Task<> write_handshake(Pipe& pipe, wire::HandshakeMessage message) {
  const wire::Bytes bytes = wire::encode(message);
  ConstBytes left = bytes;
  while (!left.empty()) {
    const std::size_t n = pipe.write(std::span(&left, 1));
    left = left.subspan(n);
    if (n > 0) continue;
    auto writable = pipe.writable();
    co_await std::move(writable);
  }
}

Task<Proved> introduce_dialler(Clock& clock, std::unique_ptr<Pipe>& pipe, const Identity& identity, bool encrypt,
                               wire::Hello own, std::optional<Fingerprint> wanted, std::optional<TicketSecret> ticket,
                               Time deadline) {
  auto encrypting = encrypt_if(encrypt, clock, pipe, identity, TlsRole::kClient, deadline);
  const Security security = co_await std::move(encrypting);
  const Deadline guard(clock, *pipe, deadline);
  try {
    auto saying = write_handshake(*pipe, own);
    co_await std::move(saying);
    auto hearing = read_handshake<wire::Hello>(*pipe);
    wire::Hello other = co_await std::move(hearing);
    const Digest digest = transcript(security.binding, own, other);
    const Fingerprint key = proved_key(security, other, other.signature, kListener, digest);
    if (wanted && *wanted != key) {
      throw LinkError(Failure::kRefused, "",
                      "has another key (" + key.shortened() + "…) than was expected (" + wanted->shortened() + "…)");
    }
    wire::Proof proof;
    if (!encrypt) proof.signature = signed_statement(identity, kDialler, digest);
    if (ticket) proof.ticket = ticket_proof(*ticket, digest);
    auto proving = write_handshake(*pipe, proof);
    co_await std::move(proving);
    Guest guest{.name = other.name, .key = key};
    co_return Proved{.hello = std::move(other), .guest = std::move(guest)};
  } catch (const LinkError&) {
    if (guard.passed()) throw too_late();
    throw;
  }
}

Task<Proved> introduce_listener(Clock& clock, std::unique_ptr<Pipe>& pipe, const Identity& identity, bool encrypt,
                                wire::Hello own, std::optional<TicketSecret> ticket, Time deadline) {
  auto encrypting = encrypt_if(encrypt, clock, pipe, identity, TlsRole::kServer, deadline);
  const Security security = co_await std::move(encrypting);
  const Deadline guard(clock, *pipe, deadline);
  try {
    auto hearing = read_handshake<wire::Hello>(*pipe);
    wire::Hello other = co_await std::move(hearing);
    const Digest digest = transcript(security.binding, other, own);
    if (!encrypt) own.signature = signed_statement(identity, kListener, digest);
    auto saying = write_handshake(*pipe, own);
    co_await std::move(saying);
    auto proving = read_handshake<wire::Proof>(*pipe);
    const wire::Proof proof = co_await std::move(proving);
    Guest guest{.name = other.name, .key = proved_key(security, other, proof.signature, kDialler, digest)};
    if (!proof.ticket.empty()) {
      if (!ticket || !equal_in_constant_time(proof.ticket, ticket_proof(*ticket, digest))) {
        throw LinkError(Failure::kRefused, "", "the ticket is not valid here; ask for a new one");
      }
      guest.ticket = true;
    }
    co_return Proved{.hello = std::move(other), .guest = std::move(guest)};
  } catch (const LinkError&) {
    if (guard.passed()) throw too_late();
    throw;
  }
}

}  // namespace rookery::net::internal
