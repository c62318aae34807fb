#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "tensor/kernels/gemm.h"

// The operators that models are made of. On the CPU in float32 each is a fused kernel behind an autograd function;
// everywhere else it is the plain formula of reference.h, which is also what the tests compare with.
//
// Gradients of parameters whose grad() exists go straight into it: no temporary, no accumulation node. Values are saved
// for backward as they were in forward, also if the parameter is bound to other memory in between. A graph is walked
// backward once: what was saved is used as scratch memory then.
namespace rookery::ops {

using kernels::Activation;

// activation(x·weightᵀ + bias) + residual.   x (…, I), weight (O, I), bias (O) or undefined, residual (…, O) or
// undefined
at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias = {},
                  Activation activation = Activation::kNone, const at::Tensor& residual = {});

// x (…, D), weight and bias (D)
at::Tensor layer_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, double epsilon = 1e-5);

// table[ids] + positions[t].   ids (B, T) int64, table (V, D), positions (≥T, D) or undefined → (B, T, D)
at::Tensor embedding(const at::Tensor& ids, const at::Tensor& table, const at::Tensor& positions = {});

// Attention of each head over its own sample. Heads are slices of the last dimension; scores are scaled by
// 1/√(D/heads). packed (B, T, 3D): queries, keys, values side by side → (B, T, D). key_lengths (B) int64, or undefined:
// keys at or after it are padding.
at::Tensor self_attention(const at::Tensor& packed, std::int64_t heads, bool causal,
                          const at::Tensor& key_lengths = {});

// queries (B, T, D), packed (B, S, 2D): keys and values side by side → (B, T, D)
at::Tensor cross_attention(const at::Tensor& queries, const at::Tensor& packed, std::int64_t heads,
                           const at::Tensor& key_lengths = {});

// What a head makes of its targets. Targets equal to kIgnoredTarget do not count.
struct LossSum {
  at::Tensor sum;        // scalar: Σ -log p(target)
  std::int64_t correct;  // how often the target was the likeliest class
};

// logits (N, C), targets (N) int64
LossSum cross_entropy(const at::Tensor& logits, const at::Tensor& targets);

// cross_entropy(x·weightᵀ, targets) without ever holding all the logits: rows go by in blocks, and the gradients of x
// and weight are formed while a block is in cache. x (N, D), weight (V, D)
LossSum linear_cross_entropy(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& targets);

// x with a share `probability` of its elements dropped and the others scaled up, by a hash of (key, position).
at::Tensor dropout(const at::Tensor& x, double probability, std::uint64_t key);

}  // namespace rookery::ops
