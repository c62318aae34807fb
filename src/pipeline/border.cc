#include "pipeline/border.h"

#include "wire/frame.h"

namespace rookery::pipeline {
namespace {

using collective::Codec;
using wire::kBorderAlignment;
using wire::TensorFacts;
using wire::WireError;

std::size_t gap_after(std::size_t size) { return (kBorderAlignment - size % kBorderAlignment) % kBorderAlignment; }

std::size_t bytes_of(const TensorFacts& tensor) {
  const auto elements = static_cast<std::size_t>(tensor.elements());
  switch (tensor.type) {
    case TensorType::kNone:
      return 0;
    case TensorType::kFloat:
      return collective::encoded_bytes(static_cast<Codec>(tensor.codec), elements);
    case TensorType::kInt64:
      return elements * sizeof(std::int64_t);
  }
  throw WireError("a border with a tensor of no known type");
}

std::span<const float> floats(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const float*>(bytes.data()), bytes.size() / sizeof(float)};
}

}  // namespace

std::size_t BorderMessage::bytes() const {
  std::size_t total = header.size();
  for (const auto part : payload) total += part.size();
  return total;
}

BorderMessage to_message(const Border& border, Codec codec) {
  wire::BorderHeader header{.micro_batch = border.micro_batch, .squares = border.squares};
  BorderMessage message;
  message.encoded.reserve(2 * border.tensors.size());  // spans of these stay
  for (const BorderTensor& tensor : border.tensors) {
    const bool encodes = tensor.type == TensorType::kFloat && codec != Codec::kNone;
    header.tensors.push_back({tensor.type, static_cast<std::uint8_t>(encodes ? codec : Codec::kNone), tensor.shape});
    std::span<const std::byte> bytes = tensor.bytes;
    if (encodes) {
      const auto values = floats(bytes);
      auto& encoded = message.encoded.emplace_back(collective::encoded_bytes(codec, values.size()));
      collective::encode(codec, values, encoded, {});
      bytes = encoded;
    }
    if (!bytes.empty()) message.payload.push_back(bytes);
    if (const std::size_t gap = gap_after(bytes.size()); gap > 0) {
      message.payload.push_back(message.encoded.emplace_back(gap));
    }
  }
  message.header = wire::encode(header);
  return message;
}

Border from_message(std::vector<std::byte> message) {
  std::size_t position = 0;
  const wire::BorderHeader header = wire::decode_border_header(message, position);
  Border border{.micro_batch = header.micro_batch, .tensors = {}, .squares = header.squares};
  const auto kept = std::make_shared<const std::vector<std::byte>>(std::move(message));
  for (const TensorFacts& facts : header.tensors) {
    if (facts.codec > static_cast<std::uint8_t>(Codec::kInt8)) throw WireError("a border with an unknown codec");
    const std::size_t size = bytes_of(facts), taken = size + gap_after(size);
    if (size > kept->size() - position || taken > kept->size() - position) throw WireError("a border without its end");
    BorderTensor tensor{.type = facts.type, .shape = facts.shape};
    const auto bytes = std::span(*kept).subspan(position, size);
    const auto codec = static_cast<Codec>(facts.codec);
    if (facts.type == TensorType::kFloat && codec != Codec::kNone) {
      const auto values = std::make_shared<std::vector<float>>(facts.elements());
      collective::decode(codec, bytes, *values);
      tensor.bytes = std::as_bytes(std::span(*values));
      tensor.keeper = values;
    } else {
      tensor.bytes = bytes;
      tensor.keeper = kept;
    }
    border.tensors.push_back(std::move(tensor));
    position += taken;
  }
  if (position != kept->size()) throw WireError("a border with something behind its end");
  return border;
}

}  // namespace rookery::pipeline
