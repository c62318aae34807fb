#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/random.h"
#include "data/dataset.h"

namespace rookery::data {

// A data set of text: makes batches for language models, plain or masked, from rows of tokens that a derived class
// provides.
//
// Masked (BERT): each position is chosen with mask_probability, and at least one per sample. A chosen position becomes
// the mask token (80 %), a random token (10 %) or stays (10 %); it is the target. The mask token follows the
// tokenizer's vocabulary.
class TokenDataset : public Dataset {
 public:
  const DataInfo& info() const override { return info_; }
  Batch batch(Split split, std::span<const Sampler::Place> places) const override;
  const Tokenizer* tokenizer() const override { return tokenizer_.get(); }
  std::string fingerprint() const override;

 protected:
  // Throws InputError if the options cannot be met. tokenizer: may be nullptr.
  TokenDataset(const DataOptions& options, std::string description, std::int64_t vocabulary,
               std::unique_ptr<Tokenizer> tokenizer);

  // A row of T + 1 tokens. For other splits than training the epoch is 0.
  virtual void read(Split split, Sampler::Place place, std::span<std::int64_t> row) const = 0;
  virtual std::string content_fingerprint() const = 0;

  const DataOptions& options() const { return options_; }
  std::size_t row_length() const { return static_cast<std::size_t>(info_.length) + 1; }

 private:
  DataOptions options_;
  DataInfo info_;
  std::unique_ptr<Tokenizer> tokenizer_;
};

// Masks `tokens` in place, by draws from `random`, and fills `targets`; returns how many were chosen. The mask is the
// token `vocabulary`.
// Requires: as many targets as tokens, not none.
std::int64_t mask_tokens(Random& random, double probability, std::int64_t vocabulary, std::span<std::int64_t> tokens,
                         std::span<std::int64_t> targets);

}  // namespace rookery::data
