#include "wire/frame.h"

#include <algorithm>

#include "wire/bytes.h"

namespace rookery::wire {
namespace {

bool is_kind(std::uint8_t value) {
  return value >= static_cast<std::uint8_t>(FrameKind::kData) &&
         value <= static_cast<std::uint8_t>(FrameKind::kGoodbye);
}

void check_data(const FrameHeader& h) {
  if (h.length > kMaxFrameBytes)
    throw WireError("a frame of {} bytes, but at most {} are allowed", h.length, kMaxFrameBytes);
  if (h.size > kMaxMessageBytes)
    throw WireError("a message of {} bytes, but at most {} are allowed", h.size, kMaxMessageBytes);
  if (h.offset > h.size || h.length > h.size - h.offset) {
    throw WireError("a piece of {} bytes at {} in a message of {}", h.length, h.offset, h.size);
  }
  if (h.length == 0 && h.size != 0) throw WireError("an empty piece of a message of {} bytes", h.size);
}

// What a kind of frame has no use for is zero, so that it can be given a meaning later.
void check_unused(const FrameHeader& h) {
  FrameHeader used{.kind = h.kind};
  switch (h.kind) {
    case FrameKind::kData:
      return;
    case FrameKind::kCredit:
      used.channel = h.channel;
      used.size = h.size;
      break;
    case FrameKind::kClose:
      used.channel = h.channel;
      used.length = h.length;
      break;
    case FrameKind::kPing:
    case FrameKind::kPong:
      used.tag = h.tag;
      break;
    case FrameKind::kGoodbye:
      used.length = h.length;
      break;
  }
  if (used != h) throw WireError("a frame of kind {} with fields that it does not have", static_cast<int>(h.kind));
  if (h.length > kMaxReasonBytes)
    throw WireError("a reason of {} bytes, but at most {} are allowed", h.length, kMaxReasonBytes);
}

// The first bytes of a text that make at most `limit`, without half a character at the end.
std::string_view cut(std::string_view text, std::size_t limit) {
  if (text.size() <= limit) return text;
  while (limit > 0 && (static_cast<unsigned char>(text[limit]) & 0xc0) == 0x80) --limit;
  return text.substr(0, limit);
}

constexpr std::size_t kMaxCulpritBytes = 255;
constexpr std::size_t kReasonOverhead = 3;  // code, length of the culprit's name

}  // namespace

FrameHeaderBytes encode(const FrameHeader& h) {
  FrameHeaderBytes bytes{};
  Writer writer(bytes);
  writer.put(static_cast<std::uint8_t>(h.kind));
  writer.put(std::uint8_t{0});
  writer.put(h.channel.purpose);
  writer.put(h.length);
  writer.put(h.channel.generation);
  writer.put(h.channel.index);
  writer.put(h.message);
  writer.put(h.size);
  writer.put(h.offset);
  writer.put(h.tag);
  writer.put(h.type);
  return bytes;
}

FrameHeader decode_frame_header(std::span<const std::byte, kFrameHeaderBytes> bytes) {
  Reader reader(bytes);
  const auto kind = reader.get<std::uint8_t>();
  const auto reserved = reader.get<std::uint8_t>();
  if (!is_kind(kind)) throw WireError("a frame of unknown kind {}", kind);
  FrameHeader h;
  h.kind = static_cast<FrameKind>(kind);
  h.channel.purpose = reader.get<std::uint16_t>();
  h.length = reader.get<std::uint32_t>();
  h.channel.generation = reader.get<std::uint32_t>();
  h.channel.index = reader.get<std::uint32_t>();
  h.message = reader.get<std::uint64_t>();
  h.size = reader.get<std::uint64_t>();
  h.offset = reader.get<std::uint64_t>();
  h.tag = reader.get<std::uint64_t>();
  h.type = reader.get<std::uint32_t>();
  if (reserved != 0 || reader.get<std::uint32_t>() != 0)
    throw WireError("a frame with reserved bytes that are not zero");
  if (h.kind == FrameKind::kData) check_data(h);
  check_unused(h);
  return h;
}

std::vector<std::byte> encode(const Reason& reason) {
  const std::string_view culprit = cut(reason.culprit, kMaxCulpritBytes);
  const std::string_view text = cut(reason.text, kMaxReasonBytes - kReasonOverhead - culprit.size());
  std::vector<std::byte> bytes(kReasonOverhead + culprit.size() + text.size());
  Writer writer(bytes);
  writer.put(reason.code);
  writer.put(static_cast<std::uint8_t>(culprit.size()));
  writer.put(culprit);
  writer.put(text);
  return bytes;
}

Reason decode_reason(std::span<const std::byte> bytes) {
  Reader reader(bytes);
  Reason reason;
  reason.code = reader.get<std::uint16_t>();
  reason.culprit = printable(reader.text(reader.get<std::uint8_t>()));
  reason.text = printable(reader.text(reader.left()));
  if (!reader.ok()) throw WireError("a reason that ends before its culprit's name");
  return reason;
}

}  // namespace rookery::wire
