#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "data/tokenizer.h"
#include "tensor/batch.h"

namespace rookery::train {

struct SamplingOptions {
  std::int64_t tokens = 200;
  double temperature = 0.8;  // 0: always the likeliest
  std::int64_t top_k = 40;   // 0: all
  std::uint64_t seed = 1;
};

// What a language model says of tokens: the logits of the next one at each place.
using Predict = std::function<Tensors(const Tensors& tokens)>;

// Continues `prompt` token by token with a language model, and calls `emit` with each token as it is drawn.
// What lies further back than the context is forgotten, by whole sentences where that leaves half of it.
// Requires: prompt is not empty, and its tokens are below the tokenizer's and the model's vocabulary; so are all drawn.
void generate(const Predict& predict, std::int64_t context, std::int64_t vocabulary, const data::Tokenizer& tokenizer,
              std::vector<data::Token> prompt, const SamplingOptions& options,
              const std::function<void(data::Token)>& emit);

}  // namespace rookery::train
