#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"

namespace rookery::wire {

// What crosses a link is a sequence of frames: a header of fixed size, then `length` bytes. A message larger than a
// frame travels in several. docs/wire-format.md has the layout.

inline constexpr std::uint16_t kProtocolVersion = 1;

// Bytes that are not what the protocol allows. The sender is broken or hostile; the link is given up.
class WireError : public Error {
 public:
  using Error::Error;
};

// Which of a link's channels. Both ends name it alike; each generation has channels of its own.
struct ChannelId {
  std::uint16_t purpose = 0;
  std::uint32_t generation = 0;
  std::uint32_t index = 0;

  auto operator<=>(const ChannelId&) const = default;
};

enum class FrameKind : std::uint8_t {
  kData = 1,    // a piece of a message
  kCredit = 2,  // `size`: how many bytes of credit the receiver has granted on the channel so far
  kClose = 3,   // the channel is closed; the content says why
  kPing = 4,    // `tag` comes back in a pong
  kPong = 5,
  kGoodbye = 6,  // the link is closed; the content says why
};

struct FrameHeader {
  FrameKind kind = FrameKind::kData;
  std::uint32_t length = 0;   // of what follows the header
  ChannelId channel{};        // data, credit, close
  std::uint64_t message = 0;  // data: number of the message on its channel, from 0
  std::uint64_t size = 0;     // data: of the whole message
  std::uint64_t offset = 0;   // data: of this piece in the message
  std::uint64_t tag = 0;      // data: the message's own; ping, pong
  std::uint32_t type = 0;     // data: the message's own

  bool operator==(const FrameHeader&) const = default;
};

inline constexpr std::size_t kFrameHeaderBytes = 56;
inline constexpr std::uint32_t kMaxFrameBytes = 1 << 20;
inline constexpr std::uint32_t kMaxReasonBytes = 1 << 10;  // of a close or goodbye
inline constexpr std::uint64_t kMaxMessageBytes = std::uint64_t{1} << 36;

using FrameHeaderBytes = std::array<std::byte, kFrameHeaderBytes>;

FrameHeaderBytes encode(const FrameHeader& header);

// Throws WireError unless the header is one that encode() makes from a valid frame: known kind, reserved bytes zero,
// and lengths within their limits and within each other.
FrameHeader decode_frame_header(std::span<const std::byte, kFrameHeaderBytes> bytes);

// Why a channel or link was closed, as it travels: who is to blame (empty: nobody), and a sentence.
struct Reason {
  std::uint16_t code = 0;
  std::string culprit;
  std::string text;

  bool operator==(const Reason&) const = default;
};

// Cuts what is too long to fit kMaxReasonBytes.
std::vector<std::byte> encode(const Reason& reason);

// What comes back can be shown: control characters have become spaces. Throws WireError if the bytes are no reason.
Reason decode_reason(std::span<const std::byte> bytes);

}  // namespace rookery::wire
