#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "collective/codec.h"
#include "wire/border.h"

namespace rookery::pipeline {

using wire::TensorType;

// One of the tensors that cross a border between two stages: plain memory, and whoever keeps it.
struct BorderTensor {
  TensorType type = TensorType::kNone;
  std::vector<std::uint64_t> shape{};
  std::span<const std::byte> bytes{};    // floats or int64, row by row
  std::shared_ptr<const void> keeper{};  // of the bytes
};

// What a stage hands to its neighbour: the outputs of a micro-batch, or the gradients of its inputs.
struct Border {
  std::uint64_t micro_batch = 0;
  std::vector<BorderTensor> tensors{};
  std::vector<double>
      squares{};  // Σ g² of other stages, as far as known: forward from the first stage on, back to the last
};

// A border as a message: a header, and the tensors' bytes from multiples of wire::kBorderAlignment on. Without a codec
// the bytes are those of the border, which must outlive them.
struct BorderMessage {
  std::vector<std::byte> header;
  std::vector<std::span<const std::byte>> payload{};
  std::vector<std::vector<std::byte>> encoded{};  // what the codec made, and gaps

  std::size_t bytes() const;
};
BorderMessage to_message(const Border& border, collective::Codec codec);

// The other way round. Tensors lie in the message, if they were not encoded. Throws WireError if it is none.
Border from_message(std::vector<std::byte> message);

}  // namespace rookery::pipeline
