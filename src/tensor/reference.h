#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "tensor/ops.h"

// The operators of ops.h as plain libtorch expressions, with autograd's own gradients. They are the definition that the
// fused kernels are tested against, and what runs on devices without such kernels.
namespace rookery::ops::reference {

at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, Activation activation,
                  const at::Tensor& residual);
at::Tensor layer_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, double epsilon);
at::Tensor embedding(const at::Tensor& ids, const at::Tensor& table, const at::Tensor& positions);
at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, std::int64_t heads, bool causal,
                     const at::Tensor& key_lengths);
LossSum cross_entropy(const at::Tensor& logits, const at::Tensor& targets);

}  // namespace rookery::ops::reference
