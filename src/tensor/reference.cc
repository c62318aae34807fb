#include "tensor/reference.h"

#include <cmath>
#include <limits>

#include <ATen/ATen.h>

#include "tensor/batch.h"

namespace rookery::ops::reference {
namespace {

// (B, T, D) → (B, heads, T, D/heads)
at::Tensor by_head(const at::Tensor& x, std::int64_t heads) {
  return x.reshape({x.size(0), x.size(1), heads, x.size(2) / heads}).transpose(1, 2);
}

}  // namespace

at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, Activation activation,
                  const at::Tensor& residual) {
  at::Tensor y = at::linear(x, weight, bias.defined() ? c10::optional<at::Tensor>(bias) : c10::nullopt);
  if (activation == Activation::kRelu) y = at::relu(y);
  if (activation == Activation::kGelu) y = at::gelu(y);
  return residual.defined() ? y + residual : y;
}

at::Tensor layer_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, double epsilon) {
  return at::layer_norm(x, {x.size(-1)}, weight, bias, epsilon);
}

at::Tensor embedding(const at::Tensor& ids, const at::Tensor& table, const at::Tensor& positions) {
  const at::Tensor rows = at::embedding(table, ids);
  return positions.defined() ? rows + positions.narrow(0, 0, ids.size(1)) : rows;
}

at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, std::int64_t heads, bool causal,
                     const at::Tensor& key_lengths) {
  const std::int64_t batch = q.size(0), queries = q.size(1), keys = k.size(1), width = q.size(2);
  const double scale = 1 / std::sqrt(static_cast<double>(width) / static_cast<double>(heads));
  at::Tensor scores = at::matmul(by_head(q, heads), by_head(k, heads).transpose(-2, -1)) * scale;
  const double never = -std::numeric_limits<double>::infinity();
  if (causal) {
    scores = scores.masked_fill(at::ones({queries, keys}, q.options().dtype(at::kBool)).triu(1), never);
  }
  if (key_lengths.defined()) {
    const at::Tensor padding = at::arange(keys, key_lengths.options()).unsqueeze(0) >= key_lengths.unsqueeze(1);
    scores = scores.masked_fill(padding.view({batch, 1, 1, keys}), never);
  }
  return at::matmul(scores.softmax(-1), by_head(v, heads)).transpose(1, 2).reshape({batch, queries, width});
}

LossSum cross_entropy(const at::Tensor& logits, const at::Tensor& targets) {
  const at::Tensor sum = at::cross_entropy_loss(logits, targets, {}, at::Reduction::Sum, kIgnoredTarget);
  return {sum, logits.argmax(-1).eq(targets).sum().item<std::int64_t>()};
}

}  // namespace rookery::ops::reference
