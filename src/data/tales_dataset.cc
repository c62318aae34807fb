#include "data/tales_dataset.h"

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "data/tales.h"
#include "data/token_dataset.h"

namespace rookery::data {
namespace {

constexpr std::uint64_t kFixedSamples = 256;

class TalesDataset final : public TokenDataset {
 public:
  TalesDataset(const DataOptions& options, std::string description, std::int64_t vocabulary,
               std::unique_ptr<Tokenizer> tokenizer)
      : TokenDataset(options, std::move(description), vocabulary, std::move(tokenizer)) {}

  std::uint64_t size(Split split) const override { return split == Split::kTrain ? 0 : kFixedSamples; }

  std::optional<double> entropy_floor(std::uint64_t samples) const override {
    if (info().problem != Problem::kLanguageModel || samples == 0) return std::nullopt;
    samples = std::min(samples, kFixedSamples);
    double nats = 0;
    for (std::uint64_t i = 0; i < samples; ++i) {
      const auto [text, tokens] = sample(Split::kEval, i);
      const std::string covered = tokenizer()->decode(tokens);
      const std::string first = tokenizer()->decode(std::span(tokens).first(1));
      if (!text.starts_with(covered) || !text.starts_with(first)) return std::nullopt;
      nats += tales_.information(covered, first.size());
    }
    return nats / static_cast<double>(samples * static_cast<std::uint64_t>(info().length));
  }

 private:
  struct Sample {
    std::string text;
    std::vector<Token> tokens;  // of its beginning
  };

  Sample sample(Split split, std::uint64_t index) const {
    Sample sample;
    for (std::size_t bytes = row_length(); sample.tokens.size() < row_length(); bytes *= 2) {
      sample.text = tales_.text(options().seed, split, index, bytes);
      sample.tokens = tokenizer()->encode(sample.text);
    }
    sample.tokens.resize(row_length());
    return sample;
  }

  void read(Split split, Sampler::Place place, std::span<std::int64_t> row) const override {
    const Sample from = sample(split, place.index);
    std::copy(from.tokens.begin(), from.tokens.end(), row.begin());
  }

  std::string content_fingerprint() const override {
    const std::string example = tales_.text(options().seed, Split::kTrain, 0, 10000);
    return digest(std::as_bytes(std::span(example)));
  }

  Tales tales_;
};

}  // namespace

std::unique_ptr<Dataset> open_tales(const DataOptions& options) {
  auto tokenizer = open_tokenizer(options.tokenizer, options.base_directory);
  const std::int64_t vocabulary = tokenizer->vocabulary();
  std::string description = fmt::format("tales, {} tokens ({})", vocabulary, tokenizer->name());
  return std::make_unique<TalesDataset>(options, std::move(description), vocabulary, std::move(tokenizer));
}

}  // namespace rookery::data
