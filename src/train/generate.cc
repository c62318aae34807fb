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

bool is_space(char c) { return c == ' ' || c == '\n'; }
bool ends_sentence(char c) { return c == '.' || c == '!' || c == '?' || c == '"' || c == '\n'; }

// The last tokens that fit the context. Where a sentence starts in the first half of them, they begin with that: text
// that breaks off in the middle of a sentence is nothing that a model has seen much of.
std::vector<data::Token> window(const std::vector<data::Token>& text, std::int64_t context,
                                const data::Tokenizer& tokenizer) {
  const auto size = static_cast<std::int64_t>(text.size());
  if (size <= context) return text;
  const std::vector<data::Token> last(text.end() - context, text.end());
  std::string before = ". ";
  for (std::int64_t i = 0; i < context / 2; ++i) {
    const std::string piece = tokenizer.decode(std::span(last).subspan(static_cast<std::size_t>(i), 1));
    if (piece.empty()) continue;
    const bool after_space = is_space(before.back()) && ends_sentence(before[before.size() - 2]);
    const bool with_space = is_space(piece.front()) && piece.size() > 1 && ends_sentence(before.back());
    if (i > 0 && (after_space || with_space)) return {last.begin() + i, last.end()};
    before = (before + piece).substr(before.size() + piece.size() - 2);
  }
  return last;
}

}  // namespace

void generate(const Predict& predict, std::int64_t context, std::int64_t vocabulary, const data::Tokenizer& tokenizer,
              std::vector<data::Token> text, const SamplingOptions& options,
              const std::function<void(data::Token)>& emit) {
  ROOKERY_CHECK(!text.empty());
  const at::NoGradGuard no_gradients;
  Random random({options.seed, word_of("generate")});
  for (std::int64_t i = 0; i < options.tokens; ++i) {
    const std::vector<data::Token> seen = window(text, context, tokenizer);
    const auto length = static_cast<std::int64_t>(seen.size());
    const at::Tensor ids = at::empty({1, length}, at::kLong);
    std::copy(seen.begin(), seen.end(), ids.data_ptr<std::int64_t>());
    const at::Tensor logits = predict({ids}).at(0).select(1, length - 1).flatten().contiguous();
    const std::span<const float> scores(logits.data_ptr<float>(), static_cast<std::size_t>(vocabulary));
    const data::Token token = draw(scores, options, random);
    text.push_back(token);
    emit(token);
  }
}

}  // namespace rookery::train
