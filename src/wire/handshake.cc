#include "wire/handshake.h"

#include <algorithm>
#include <cctype>
#include <proto/handshake.pb.h>

#include "wire/bytes.h"

namespace rookery::wire {
namespace {

constexpr std::uint32_t kMagic = 0x4b4f4f52;  // "ROOK"
constexpr std::size_t kSignatureBytes = 64, kMacBytes = 32, kTokenBytes = 16;

enum Kind : std::uint16_t { kHello = 1, kProof = 2, kWelcome = 3, kRefusal = 4 };

template <typename Range>
std::string to_string(const Range& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Bytes to_bytes(const std::string& text, const char* what, std::initializer_list<std::size_t> sizes) {
  if (std::ranges::find(sizes, text.size()) == sizes.end()) throw WireError("a {} of {} bytes", what, text.size());
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

template <std::size_t N>
std::array<std::byte, N> to_array(const std::string& text, const char* what) {
  const Bytes bytes = to_bytes(text, what, {N});
  std::array<std::byte, N> result{};
  std::ranges::copy(bytes, result.begin());
  return result;
}

template <typename Message>
Message parse(std::span<const std::byte> content) {
  Message message;
  if (!message.ParseFromArray(content.data(), static_cast<int>(content.size()))) {
    throw WireError("a handshake message that cannot be read");
  }
  return message;
}

std::pair<Kind, std::string> content_of(const Hello& hello) {
  proto::Hello message;
  message.set_name(hello.name);
  message.set_public_key(to_string(hello.public_key));
  message.set_nonce(to_string(hello.nonce));
  message.set_link(to_string(hello.link));
  message.set_lane(hello.lane);
  message.set_lanes(hello.lanes);
  message.set_host(hello.host);
  message.set_signature(to_string(hello.signature));
  return {kHello, message.SerializeAsString()};
}

std::pair<Kind, std::string> content_of(const Proof& proof) {
  proto::Proof message;
  message.set_signature(to_string(proof.signature));
  message.set_ticket(to_string(proof.ticket));
  return {kProof, message.SerializeAsString()};
}

std::pair<Kind, std::string> content_of(const Welcome& welcome) {
  proto::Welcome message;
  message.set_shared_memory(welcome.shared_memory);
  message.set_token(to_string(welcome.token));
  return {kWelcome, message.SerializeAsString()};
}

std::pair<Kind, std::string> content_of(const Refusal& refusal) {
  proto::Refusal message;
  message.set_failure(refusal.failure);
  message.set_text(refusal.text.substr(0, kMaxReasonBytes));
  return {kRefusal, message.SerializeAsString()};
}

Hello hello_from(const proto::Hello& message) {
  if (!is_name(message.name())) throw WireError("a name that is none");
  if (message.lanes() == 0 || message.lanes() > kMaxLanes || message.lane() >= message.lanes()) {
    throw WireError("lane {} of {}", message.lane(), message.lanes());
  }
  if (message.host().size() > kMaxNameBytes) throw WireError("a host's name of {} bytes", message.host().size());
  return {.name = message.name(),
          .public_key = to_array<32>(message.public_key(), "public key"),
          .nonce = to_array<32>(message.nonce(), "nonce"),
          .link = to_array<16>(message.link(), "link token"),
          .lane = message.lane(),
          .lanes = message.lanes(),
          .host = message.host(),
          .signature = to_bytes(message.signature(), "signature", {0, kSignatureBytes})};
}

}  // namespace

bool is_name(std::string_view text) {
  const auto fits = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.' || c == '@';
  };
  return !text.empty() && text.size() <= kMaxNameBytes && std::ranges::all_of(text, fits);
}

Bytes encode(const HandshakeMessage& message) {
  const auto [kind, content] = std::visit([](const auto& m) { return content_of(m); }, message);
  Bytes bytes(kPreambleBytes + content.size());
  Writer writer(bytes);
  writer.put(kMagic);
  writer.put(kProtocolVersion);
  writer.put(static_cast<std::uint16_t>(kind));
  writer.put(static_cast<std::uint32_t>(content.size()));
  writer.put(std::string_view(content));
  return bytes;
}

Preamble decode_preamble(std::span<const std::byte, kPreambleBytes> bytes) {
  Reader reader(bytes);
  if (reader.get<std::uint32_t>() != kMagic) throw WireError("does not speak Rookery's protocol");
  Preamble preamble;
  preamble.version = reader.get<std::uint16_t>();
  preamble.kind = reader.get<std::uint16_t>();
  preamble.length = reader.get<std::uint32_t>();
  if (preamble.version != kProtocolVersion) {
    throw WireError("speaks version {} of the protocol, and this is version {}; update the older one", preamble.version,
                    kProtocolVersion);
  }
  if (preamble.length > kMaxHandshakeBytes) throw WireError("a handshake message of {} bytes", preamble.length);
  return preamble;
}

HandshakeMessage decode_handshake(std::uint16_t kind, std::span<const std::byte> content) {
  if (content.size() > kMaxHandshakeBytes) throw WireError("a handshake message of {} bytes", content.size());
  switch (kind) {
    case kHello:
      return hello_from(parse<proto::Hello>(content));
    case kProof: {
      const auto message = parse<proto::Proof>(content);
      return Proof{.signature = to_bytes(message.signature(), "signature", {0, kSignatureBytes}),
                   .ticket = to_bytes(message.ticket(), "ticket's proof", {0, kMacBytes})};
    }
    case kWelcome: {
      const auto message = parse<proto::Welcome>(content);
      if (message.shared_memory().size() > kMaxNameBytes) throw WireError("a socket's name that is too long");
      return Welcome{.shared_memory = message.shared_memory(),
                     .token = to_bytes(message.token(), "token", {0, kTokenBytes})};
    }
    case kRefusal: {
      const auto message = parse<proto::Refusal>(content);
      return Refusal{.failure = static_cast<std::uint16_t>(std::min<std::uint32_t>(message.failure(), 0xffff)),
                     .text = printable(message.text().substr(0, kMaxReasonBytes))};
    }
    default:
      throw WireError("a handshake message of unknown kind {}", kind);
  }
}

}  // namespace rookery::wire
