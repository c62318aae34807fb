#include <cmath>

#include <fmt/format.h>

#include "model/kinds.h"
#include "model/transformer.h"

// The encoder-decoder transformer, norm first, relu inside. One embedding serves source, target and output.
//
// What crosses the borders:
//   encoder blocks   {x (B, S, D), target ids (B, T), source lengths (B)}
//   decoder blocks   {y (B, T, D), encoded source (B, S, D), source lengths (B)}
namespace rookery::model {
namespace {

constexpr std::size_t kTargetIds = 1, kLengths = 2;  // of an encoder border
constexpr std::size_t kEncoded = 1;                  // of a decoder border

// From the encoder to the decoder: the encoded source gets its final norm and steps aside for the embedded target.
class DecoderEmbedding final : public Layer {
 public:
  DecoderEmbedding(std::string name, const ModelOptions& o, const Parameter& table)
      : Layer(std::move(name)),
        dropout_(o.dropout),
        norm_(norm("encoder_norm", o.width)),
        table_(tied(table)),
        positions_(weight("positions", {o.context, o.width}, Initializer::normal(0.02))) {}

  Tensors forward(const Tensors& inputs, const Pass& pass) override {
    const at::Tensor y = ops::embedding(inputs[kTargetIds], table_.tensor(), positions_.tensor());
    return {dropped(y, dropout_, pass), norm_(inputs[0]), inputs[kLengths]};
  }

 private:
  double dropout_;
  NormParameters norm_;
  Parameter table_, positions_;
};

// Self attention over the target so far, attention to the source, feed-forward; each on a residual branch.
class DecoderBlock final : public Layer {
 public:
  DecoderBlock(std::string name, const ModelOptions& o) : Layer(std::move(name)), heads_(o.heads), dropout_(o.dropout) {
    const Initializer start = Initializer::normal(0.02);
    const Initializer residual = Initializer::normal(0.02 / std::sqrt(3.0 * static_cast<double>(o.layers)));
    norm1_ = norm("norm1", o.width);
    self_in_ = linear("self_attention.in", o.width, 3 * o.width, start);
    self_out_ = linear("self_attention.out", o.width, o.width, residual);
    norm2_ = norm("norm2", o.width);
    cross_queries_ = linear("cross_attention.queries", o.width, o.width, start);
    cross_keys_values_ = linear("cross_attention.keys_values", o.width, 2 * o.width, start);
    cross_out_ = linear("cross_attention.out", o.width, o.width, residual);
    norm3_ = norm("norm3", o.width);
    feed_forward_in_ = linear("feed_forward.in", o.width, o.hidden, start);
    feed_forward_out_ = linear("feed_forward.out", o.hidden, o.width, residual);
  }

  Tensors forward(const Tensors& inputs, const Pass& pass) override {
    const at::Tensor& encoded = inputs[kEncoded];
    const at::Tensor& lengths = inputs[kLengths];
    at::Tensor y = inputs[0];
    y = branch(y, self_out_, ops::self_attention(self_in_(norm1_(y)), heads_, true), pass, 0);
    const at::Tensor seen =
        ops::cross_attention(cross_queries_(norm2_(y)), cross_keys_values_(encoded), heads_, lengths);
    y = branch(y, cross_out_, seen, pass, 1);
    y = branch(y, feed_forward_out_, feed_forward_in_(norm3_(y), ops::Activation::kRelu), pass, 2);
    return {y, encoded, lengths};
  }

 private:
  // y + out(x), with dropout on the branch when training.
  at::Tensor branch(const at::Tensor& y, const LinearParameters& out, const at::Tensor& x, const Pass& pass,
                    std::uint64_t place) const {
    if (!pass.training || dropout_ <= 0) return out(x, ops::Activation::kNone, y);
    return y + dropped(out(x), dropout_, pass, place);
  }

  std::int64_t heads_;
  double dropout_;
  NormParameters norm1_, norm2_, norm3_;
  LinearParameters self_in_, self_out_, cross_queries_, cross_keys_values_, cross_out_, feed_forward_in_,
      feed_forward_out_;
};

}  // namespace

std::unique_ptr<Model> make_seq2seq(const ModelOptions& options) {
  std::vector<std::unique_ptr<Layer>> layers;
  auto embedding = std::make_unique<TokenEmbedding>("encoder.embedding", options);
  const Parameter table = embedding->table();
  layers.push_back(std::move(embedding));
  for (std::int64_t i = 0; i < options.layers; ++i) {
    layers.push_back(std::make_unique<TransformerBlock>(fmt::format("encoder.block.{}", i), options,
                                                        ops::Activation::kRelu, false, kLengths));
  }
  layers.push_back(std::make_unique<DecoderEmbedding>("decoder.embedding", options, table));
  for (std::int64_t i = 0; i < options.layers; ++i) {
    layers.push_back(std::make_unique<DecoderBlock>(fmt::format("decoder.block.{}", i), options));
  }
  return std::make_unique<Model>(options.kind, std::move(layers),
                                 std::make_unique<TokenHead>("head", options.width, table));
}

}  // namespace rookery::model
