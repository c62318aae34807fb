#include "train/generate.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <ATen/ATen.h>

#include "base/error.h"
#include "base/random.h"

namespace rookery::train {
namespace {

// Draws one token from softmax(logits / temperature), restricted to the k likeliest.
data::Token draw(std::span<const float> logits, const SamplingOptions& options, Random& random) {
  std::vector<data::Token> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto likelier = [&](data::Token a, data::Token b) {
    return std::pair(-logits[static_cast<std::size_t>(a)], a) < std::pair(-logits[static_cast<std::size_t>(b)], b);
  };
  std::size_t k = options.top_k > 0 ? static_cast<std::size_t>(options.top_k) : logits.size();
  if (options.temperature <= 0) k = 1;
  k = std::min(k, order.size());
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(k), order.end(), likelier);
  if (k == 1) return order[0];

  std::vector<double> weights(k);
  const double best = logits[static_cast<std::size_t>(order[0])];
  for (std::size_t i = 0; i < k; ++i) {
    weights[i] = std::exp((logits[static_cast<std::size_t>(order[i])] - best) / options.temperature);
  }
  double at = random.uniform() * std::accumulate(weights.begin(), weights.end(), 0.0);
  for (std::size_t i = 0; i + 1 < k; ++i) {
    if (at < weights[i]) return order[i];
    at -= weights[i];
  }
  return order[k - 1];
}

}  // namespace

void generate(const model::Model& model, std::int64_t context, std::int64_t vocabulary,
              std::vector<data::Token> prompt, const SamplingOptions& options,
              const std::function<void(data::Token)>& emit) {
  ROOKERY_CHECK(!prompt.empty());
  const at::NoGradGuard no_gradients;
  Random random({options.seed, word_of("generate")});
  std::vector<std::int64_t> text(prompt.begin(), prompt.end());
  for (std::int64_t i = 0; i < options.tokens; ++i) {
    const auto length = std::min(static_cast<std::int64_t>(text.size()), context);
    const at::Tensor ids = at::empty({1, length}, at::kLong);
    std::copy(text.end() - length, text.end(), ids.data_ptr<std::int64_t>());
    const at::Tensor logits = model.predict({ids}).at(0).select(1, length - 1).flatten().contiguous();
    const std::span<const float> scores(logits.data_ptr<float>(), static_cast<std::size_t>(vocabulary));
    const data::Token token = draw(scores, options, random);
    text.push_back(token);
    emit(token);
  }
}

}  // namespace rookery::train
