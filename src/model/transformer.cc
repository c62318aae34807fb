#include "model/transformer.h"

#include <cmath>

namespace rookery::model {
namespace {

constexpr double kDeviation = 0.02;  // of all weights at the start, as in GPT-2

// The outputs of residual branches start smaller, so that the sum over all blocks keeps its variance.
Initializer residual_start(const ModelOptions& options) {
  return Initializer::normal(kDeviation / std::sqrt(2.0 * static_cast<double>(options.layers)));
}

Tensors with_first(const Tensors& inputs, at::Tensor first) {
  Tensors outputs = inputs;
  outputs[0] = std::move(first);
  return outputs;
}

}  // namespace

TokenEmbedding::TokenEmbedding(std::string name, const ModelOptions& options)
    : Layer(std::move(name)),
      dropout_(options.dropout),
      table_(weight("tokens", {options.vocabulary, options.width}, Initializer::normal(kDeviation))),
      positions_(weight("positions", {options.context, options.width}, Initializer::normal(kDeviation))) {}

Tensors TokenEmbedding::forward(const Tensors& inputs, const Pass& pass) {
  const at::Tensor x = ops::embedding(inputs[0], table_.tensor(), positions_.tensor());
  return with_first(inputs, dropped(x, dropout_, pass, 0));
}

TransformerBlock::TransformerBlock(std::string name, const ModelOptions& o, ops::Activation activation, bool causal,
                                   std::optional<std::size_t> lengths_at)
    : Layer(std::move(name)),
      heads_(o.heads),
      dropout_(o.dropout),
      activation_(activation),
      causal_(causal),
      lengths_at_(lengths_at) {
  const Initializer start = Initializer::normal(kDeviation);
  norm1_ = norm("norm1", o.width);
  attention_in_ = linear("attention.in", o.width, 3 * o.width, start);
  attention_out_ = linear("attention.out", o.width, o.width, residual_start(o));
  norm2_ = norm("norm2", o.width);
  feed_forward_in_ = linear("feed_forward.in", o.width, o.hidden, start);
  feed_forward_out_ = linear("feed_forward.out", o.hidden, o.width, residual_start(o));
}

Tensors TransformerBlock::forward(const Tensors& inputs, const Pass& pass) {
  using ops::Activation;
  const at::Tensor& x = inputs[0];
  const at::Tensor lengths = lengths_at_ ? inputs.at(*lengths_at_) : at::Tensor();
  const at::Tensor mixed = ops::self_attention(attention_in_(norm1_(x)), heads_, causal_, lengths);
  if (!pass.training || dropout_ <= 0) {
    const at::Tensor y = attention_out_(mixed, Activation::kNone, x);
    return with_first(inputs, feed_forward_out_(feed_forward_in_(norm2_(y), activation_), Activation::kNone, y));
  }
  const at::Tensor y = x + dropped(attention_out_(mixed), dropout_, pass, 0);
  const at::Tensor hidden = feed_forward_in_(norm2_(y), activation_);
  return with_first(inputs, y + dropped(feed_forward_out_(hidden), dropout_, pass, 1));
}

TokenHead::TokenHead(std::string name, std::int64_t width, const Parameter& table)
    : Head(std::move(name)), norm_(norm("norm", width)), table_(tied(table)) {}

Tensors TokenHead::forward(const Tensors& inputs, const Pass&) {
  return {ops::linear(norm_(inputs[0]), table_.tensor())};
}

ops::LossSum TokenHead::loss(const Tensors& inputs, const at::Tensor& targets, const Pass&) {
  const at::Tensor x = norm_(inputs[0]);
  return ops::linear_cross_entropy(x.reshape({-1, x.size(-1)}), table_.tensor(), targets.reshape({-1}));
}

}  // namespace rookery::model
