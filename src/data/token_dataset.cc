#include "data/token_dataset.h"

#include <algorithm>

#include <ATen/ops/empty.h>

#include "base/error.h"
#include "base/file.h"

namespace rookery::data {

TokenDataset::TokenDataset(const DataOptions& options, std::string description, std::int64_t vocabulary,
                           std::unique_ptr<Tokenizer> tokenizer)
    : options_(options), tokenizer_(std::move(tokenizer)) {
  const bool masked = options.problem == Problem::kMaskedLanguageModel;
  if (options.context < 1) throw InputError("model.context: is {}, but must be at least 1", options.context);
  if (masked && !(options.mask_probability > 0 && options.mask_probability < 1)) {
    throw InputError("data.mask_probability: is {}, but must be between 0 and 1", options.mask_probability);
  }
  info_.problem = options.problem;
  info_.description = std::move(description);
  info_.vocabulary = vocabulary + (masked ? 1 : 0);
  info_.mask_token = masked ? vocabulary : -1;
  info_.length = options.context;
}

Batch TokenDataset::batch(Split split, std::span<const Sampler::Place> places) const {
  ROOKERY_CHECK(!places.empty());
  const auto rows = static_cast<std::int64_t>(places.size());
  Batch batch;
  batch.inputs = {at::empty({rows, info_.length}, at::kLong)};
  batch.targets = at::empty({rows, info_.length}, at::kLong);
  batch.samples = rows;
  batch.tokens = rows * info_.length;
  std::vector<std::int64_t> row(row_length());
  const std::size_t length = row.size() - 1;
  for (std::size_t i = 0; i < places.size(); ++i) {
    const Sampler::Place place{split == Split::kTrain ? places[i].epoch : 0, places[i].index};
    read(split, place, row);
    const std::span tokens(batch.inputs[0].data_ptr<std::int64_t>() + i * length, length);
    const std::span targets(batch.targets.data_ptr<std::int64_t>() + i * length, length);
    std::copy_n(row.begin(), length, tokens.begin());
    if (info_.problem == Problem::kMaskedLanguageModel) {
      Random random({options_.seed, word_of("mask"), static_cast<std::uint64_t>(split), place.epoch, place.index});
      batch.loss_terms += mask_tokens(random, options_.mask_probability, info_.mask_token, tokens, targets);
    } else {
      std::copy_n(row.begin() + 1, length, targets.begin());
      batch.loss_terms += info_.length;
    }
  }
  return batch;
}

std::string TokenDataset::fingerprint() const {
  const std::string facts =
      fmt::format("{} {} {} {} {} {} {}", content_fingerprint(), tokenizer_ ? tokenizer_->fingerprint() : "",
                  static_cast<int>(info_.problem), info_.vocabulary, info_.length, options_.seed,
                  info_.mask_token < 0 ? 0 : options_.mask_probability);
  return digest(std::as_bytes(std::span(facts)));
}

std::int64_t mask_tokens(Random& random, double probability, std::int64_t vocabulary, std::span<std::int64_t> tokens,
                         std::span<std::int64_t> targets) {
  ROOKERY_CHECK(!tokens.empty() && tokens.size() == targets.size());
  std::fill(targets.begin(), targets.end(), kIgnoredTarget);
  std::int64_t chosen = 0;
  const auto choose = [&](std::size_t i) {
    ++chosen;
    targets[i] = tokens[i];
    const double kind = random.uniform();
    if (kind < 0.8) {
      tokens[i] = vocabulary;
    } else if (kind < 0.9) {
      tokens[i] = static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(vocabulary)));
    }
  };
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (random.uniform() < probability) choose(i);
  }
  if (chosen == 0) choose(random.below(tokens.size()));
  return chosen;
}

}  // namespace rookery::data
