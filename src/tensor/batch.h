#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

namespace rookery {

// What crosses a border between two layers: activations that carry gradients, and whatever rides along (tokens, masks).
using Tensors = std::vector<at::Tensor>;

// Targets with this value are not part of the loss: padding, and tokens that are not masked out.
inline constexpr std::int64_t kIgnoredTarget = -100;

// What a model is asked to do, and so what its batches hold. B samples, T target positions, S source positions:
enum class Problem {
  kLanguageModel,        // inputs {tokens (B, T)}; targets (B, T): each token's successor
  kMaskedLanguageModel,  // inputs {tokens (B, T), some masked}; targets (B, T): the original where masked
  kTranslation,          // inputs {source (B, S), target so far (B, T), source lengths (B)}; targets (B, T)
  kClassification,       // inputs {images (B, C, H, W)}; targets (B)
};

// Some samples and what a model should make of them. The first dimension of every tensor is the sample.
struct Batch {
  Tensors inputs;
  at::Tensor targets;  // int64, (B) for classes, (B, T) for tokens
  std::int64_t samples = 0;
  std::int64_t tokens = 0;      // target positions that were read: samples for images, B·T for text
  std::int64_t loss_terms = 0;  // targets that count, i.e. are not kIgnoredTarget
};

}  // namespace rookery
