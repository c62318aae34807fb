#include <fmt/format.h>

#include "model/kinds.h"
#include "model/transformer.h"

namespace rookery::model {
namespace {

// Embedding, blocks, and a head tied to the embedding: gpt if causal, else bert.
std::unique_ptr<Model> make_tied_transformer(const ModelOptions& options, bool causal) {
  std::vector<std::unique_ptr<Layer>> layers;
  auto embedding = std::make_unique<TokenEmbedding>("embedding", options);
  auto head = std::make_unique<TokenHead>("head", options.width, embedding->table());
  layers.push_back(std::move(embedding));
  for (std::int64_t i = 0; i < options.layers; ++i) {
    layers.push_back(
        std::make_unique<TransformerBlock>(fmt::format("block.{}", i), options, ops::Activation::kGelu, causal));
  }
  return std::make_unique<Model>(options.kind, std::move(layers), std::move(head));
}

}  // namespace

std::unique_ptr<Model> make_gpt(const ModelOptions& options) { return make_tied_transformer(options, true); }

std::unique_ptr<Model> make_bert(const ModelOptions& options) { return make_tied_transformer(options, false); }

}  // namespace rookery::model
