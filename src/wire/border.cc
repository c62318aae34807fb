#include "wire/border.h"

#include <bit>
#include <cmath>

#include "wire/bytes.h"
#include "wire/frame.h"

namespace rookery::wire {
namespace {

std::size_t aligned(std::size_t size) { return (size + kBorderAlignment - 1) / kBorderAlignment * kBorderAlignment; }

// size (4), micro-batch (8), tensors (2), squares (2); then of each tensor type, codec, dimensions (1 each) and shape.
constexpr std::size_t kFixedBytes = 16, kTensorBytes = 3;

[[noreturn]] void refuse(const char* what) { throw WireError("a border with {}", what); }

TensorFacts read_tensor(Reader& reader) {
  TensorFacts tensor;
  const auto type = reader.get<std::uint8_t>();
  if (type > static_cast<std::uint8_t>(TensorType::kInt64)) refuse("a tensor of no known type");
  tensor.type = static_cast<TensorType>(type);
  tensor.codec = reader.get<std::uint8_t>();
  const auto dimensions = reader.get<std::uint8_t>();
  if (dimensions > kMaxDimensions) refuse("too many dimensions");
  std::uint64_t elements = 1;
  for (std::size_t i = 0; i < dimensions; ++i) {
    const auto length = reader.get<std::uint64_t>();
    if (length > kMaxElements || (length > 0 && elements > kMaxElements / length)) refuse("a tensor that is too large");
    elements *= length;
    tensor.shape.push_back(length);
  }
  return tensor;
}

}  // namespace

std::uint64_t TensorFacts::elements() const {
  if (type == TensorType::kNone) return 0;
  std::uint64_t product = 1;
  for (const std::uint64_t length : shape) product *= length;
  return product;
}

std::vector<std::byte> encode(const BorderHeader& header) {
  std::size_t size = kFixedBytes + header.squares.size() * sizeof(double);
  for (const TensorFacts& tensor : header.tensors) size += kTensorBytes + tensor.shape.size() * sizeof(std::uint64_t);
  std::vector<std::byte> bytes(aligned(size));
  Writer writer(bytes);
  writer.put(static_cast<std::uint32_t>(bytes.size()));
  writer.put(header.micro_batch);
  writer.put(static_cast<std::uint16_t>(header.tensors.size()));
  writer.put(static_cast<std::uint16_t>(header.squares.size()));
  for (const TensorFacts& tensor : header.tensors) {
    writer.put(static_cast<std::uint8_t>(tensor.type));
    writer.put(tensor.codec);
    writer.put(static_cast<std::uint8_t>(tensor.shape.size()));
    for (const std::uint64_t length : tensor.shape) writer.put(length);
  }
  for (const double square : header.squares) writer.put(std::bit_cast<std::uint64_t>(square));
  return bytes;
}

BorderHeader decode_border_header(std::span<const std::byte> message, std::size_t& size) {
  Reader outer(message);
  size = outer.get<std::uint32_t>();
  if (!outer.ok() || size < kFixedBytes || size > message.size() || size % kBorderAlignment != 0) refuse("no header");
  Reader reader(message.first(size).subspan(sizeof(std::uint32_t)));
  BorderHeader header{.micro_batch = reader.get<std::uint64_t>()};
  const auto tensors = reader.get<std::uint16_t>(), squares = reader.get<std::uint16_t>();
  if (tensors > kMaxBorderTensors || squares > kMaxStages) refuse("too much in it");
  for (std::size_t i = 0; i < tensors; ++i) header.tensors.push_back(read_tensor(reader));
  for (std::size_t i = 0; i < squares; ++i) {
    const auto square = std::bit_cast<double>(reader.get<std::uint64_t>());
    if (std::signbit(square) && square != 0) refuse("a negative square");
    header.squares.push_back(square);
  }
  if (!reader.ok() || aligned(size - reader.left()) != size) refuse("a header of another size");
  return header;
}

}  // namespace rookery::wire
