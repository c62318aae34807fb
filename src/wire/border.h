#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace rookery::wire {

// What a message between two stages of a pipeline begins with: which micro-batch it belongs to, and what its tensors
// are. The tensors' bytes follow, each from a multiple of kBorderAlignment on.

enum class TensorType : std::uint8_t {
  kNone = 0,  // nothing: the gradient of a tensor that has none
  kFloat = 1,
  kInt64 = 2,
};

struct TensorFacts {
  TensorType type = TensorType::kNone;
  std::uint8_t codec = 0;              // how floats are written; the pipeline knows which there are
  std::vector<std::uint64_t> shape{};  // at most kMaxDimensions

  std::uint64_t elements() const;
  bool operator==(const TensorFacts&) const = default;
};

struct BorderHeader {
  std::uint64_t micro_batch = 0;
  std::vector<TensorFacts> tensors{};  // at most kMaxBorderTensors
  std::vector<double> squares{};       // of gradients, by stage, as far as the sender knows them

  bool operator==(const BorderHeader&) const = default;
};

inline constexpr std::size_t kBorderAlignment = 64;
inline constexpr std::size_t kMaxDimensions = 8;
inline constexpr std::size_t kMaxBorderTensors = 64;
inline constexpr std::size_t kMaxStages = 1024;
inline constexpr std::uint64_t kMaxElements = std::uint64_t{1} << 40;  // of one tensor

// The bytes, filled up to a multiple of kBorderAlignment.
std::vector<std::byte> encode(const BorderHeader& header);

// Reads a header from the beginning of a message. `size`: how many bytes it has. Throws WireError if there is none, or
// something in it is beyond its limits.
BorderHeader decode_border_header(std::span<const std::byte> message, std::size_t& size);

}  // namespace rookery::wire
