#pragma once

#include <optional>
#include <string>

#include "model/layer.h"
#include "model/model.h"

// The layers that gpt, bert and seq2seq are made of. Shapes: B samples, T tokens, D width.
namespace rookery::model {

// Tokens to vectors, with learned positions.   {ids (B, T), rest…} → {(B, T, D), rest…}
class TokenEmbedding final : public Layer {
 public:
  TokenEmbedding(std::string name, const ModelOptions& options);
  Tensors forward(const Tensors& inputs, const Pass& pass) override;

  const Parameter& table() const { return table_; }  // for a tied head

 private:
  double dropout_;
  Parameter table_, positions_;
};

// One block, norm first: x + attention(norm(x)), then x + feed_forward(norm(x)).
// {x (B, T, D), rest…} → {x, rest…}. If `lengths_at` is given, inputs[lengths_at] are the lengths of padded samples.
class TransformerBlock final : public Layer {
 public:
  TransformerBlock(std::string name, const ModelOptions& options, ops::Activation activation, bool causal,
                   std::optional<std::size_t> lengths_at = {});
  Tensors forward(const Tensors& inputs, const Pass& pass) override;

 private:
  std::int64_t heads_;
  double dropout_;
  ops::Activation activation_;
  bool causal_;
  std::optional<std::size_t> lengths_at_;
  NormParameters norm1_, norm2_;
  LinearParameters attention_in_, attention_out_, feed_forward_in_, feed_forward_out_;
};

// Final norm and the scores of all tokens, by a weight that may be tied to the embedding.   {x (B, T, D), …} → {(B, T,
// V)} The loss never holds the scores of all tokens at once.
class TokenHead final : public Head {
 public:
  // A head tied to `table` (V, D).
  TokenHead(std::string name, std::int64_t width, const Parameter& table);

  Tensors forward(const Tensors& inputs, const Pass& pass) override;
  ops::LossSum loss(const Tensors& inputs, const at::Tensor& targets, const Pass& pass) override;

 private:
  NormParameters norm_;
  Parameter table_;
};

}  // namespace rookery::model
