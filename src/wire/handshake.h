#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "wire/frame.h"

namespace rookery::wire {

// What is said before a link exists. Each message is a preamble (magic, version, kind, length) and its content; whoever
// says it may be anybody, so every field has its limit.

using Key = std::array<std::byte, 32>;
using Nonce = std::array<std::byte, 32>;
using LinkToken = std::array<std::byte, 16>;
using Bytes = std::vector<std::byte>;

struct Hello {
  std::string name{};
  Key public_key{};
  Nonce nonce{};
  LinkToken link{};
  std::uint32_t lane = 0;
  std::uint32_t lanes = 1;
  std::string host{};
  Bytes signature{};  // 0 or 64 bytes

  bool operator==(const Hello&) const = default;
};

struct Proof {
  Bytes signature;  // 0 or 64 bytes
  Bytes ticket;     // 0 or 32 bytes

  bool operator==(const Proof&) const = default;
};

struct Welcome {
  std::string shared_memory;
  Bytes token;  // 0 or 16 bytes

  bool operator==(const Welcome&) const = default;
};

struct Refusal {
  std::uint16_t failure = 0;
  std::string text;

  bool operator==(const Refusal&) const = default;
};

using HandshakeMessage = std::variant<Hello, Proof, Welcome, Refusal>;

inline constexpr std::size_t kPreambleBytes = 12;
inline constexpr std::size_t kMaxHandshakeBytes = 4096;
inline constexpr std::size_t kMaxNameBytes = 64;
inline constexpr std::uint32_t kMaxLanes = 16;

struct Preamble {
  std::uint16_t version = kProtocolVersion;
  std::uint16_t kind = 0;
  std::uint32_t length = 0;
};

// Preamble and content.
Bytes encode(const HandshakeMessage& message);

// Throws WireError if these are not the first bytes of a handshake message, naming the version if it is another.
Preamble decode_preamble(std::span<const std::byte, kPreambleBytes> bytes);

// Throws WireError if a field is missing, too long, or not what it should be.
HandshakeMessage decode_handshake(std::uint16_t kind, std::span<const std::byte> content);

// A name that is short and can be shown: letters, digits and -_.@ only.
bool is_name(std::string_view text);

}  // namespace rookery::wire
