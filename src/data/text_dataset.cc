#include "data/text_dataset.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/random.h"
#include "base/units.h"
#include "data/token_dataset.h"
#include "data/tokens.h"

namespace rookery::data {
namespace {

// A split's tokens, and how many windows are cut from them.
struct Part {
  std::uint64_t begin = 0;
  std::uint64_t size = 0;
  std::uint64_t windows = 0;
};

class TextDataset final : public TokenDataset {
 public:
  TextDataset(const DataOptions& options, Tokens tokens, std::int64_t vocabulary, std::unique_ptr<Tokenizer> tokenizer)
      : TokenDataset(options,
                     fmt::format("{}, {} tokens of a vocabulary of {}", options.source,
                                 format_count(static_cast<double>(tokens.size())), vocabulary),
                     vocabulary, std::move(tokenizer)),
        tokens_(std::move(tokens)) {
    const std::uint64_t n = tokens_.size(), row = row_length();
    if (n < 3 * row) {
      throw InputError(
          "data.source: {} has {} tokens, but training, evaluation and test need at least one sample of {} each; "
          "use a longer text{}",
          (options.base_directory / options.source).string(), n, row,
          n >= 6 ? fmt::format(" or set model.context to {} or less", n / 3 - 1) : "");
    }
    const std::uint64_t small = std::max(n / 20, row);
    parts_ = {part(0, n - 2 * small), part(n - 2 * small, small), part(n - small, small)};
  }

  std::uint64_t size(Split split) const override { return part_of(split).windows; }

 private:
  Part part(std::uint64_t begin, std::uint64_t size) const {
    const std::uint64_t step = row_length() - 1;
    const bool shifted = begin == 0;  // training windows leave room for an offset of up to a window
    return {begin, size, std::max<std::uint64_t>(1, shifted ? (size - step) / step : (size - 1) / step)};
  }

  const Part& part_of(Split split) const { return parts_[static_cast<std::size_t>(split)]; }

  void read(Split split, Sampler::Place place, std::span<std::int64_t> row) const override {
    const Part& from = part_of(split);
    ROOKERY_CHECK(place.index < from.windows, "index = {}, windows = {}", place.index, from.windows);
    const std::uint64_t step = row.size() - 1;
    std::uint64_t offset = 0;
    if (split == Split::kTrain) {
      const std::uint64_t room = from.size - from.windows * step;  // at least 1
      offset = Random({options().seed, word_of("offset"), place.epoch}).below(std::min(step, room));
    }
    tokens_.copy(from.begin + offset + place.index * step, row);
  }

  std::string content_fingerprint() const override { return tokens_.fingerprint(); }

  Tokens tokens_;
  std::array<Part, 3> parts_;
};

}  // namespace

std::unique_ptr<Dataset> open_texts(const DataOptions& options, std::span<const std::filesystem::path> texts) {
  ROOKERY_CHECK(!texts.empty());
  auto tokenizer = open_tokenizer(options.tokenizer, options.base_directory);
  Tokens tokens = Tokens::from_texts(texts, *tokenizer);
  const std::int64_t vocabulary = tokenizer->vocabulary();
  return std::make_unique<TextDataset>(options, std::move(tokens), vocabulary, std::move(tokenizer));
}

std::unique_ptr<Dataset> open_shards(const DataOptions& options, std::span<const std::filesystem::path> shards) {
  ROOKERY_CHECK(!shards.empty());
  std::unique_ptr<Tokenizer> tokenizer;
  if (options.tokenizer != "bytes") tokenizer = open_tokenizer(options.tokenizer, options.base_directory);
  Tokens tokens = Tokens::from_shards(shards);
  const std::int64_t vocabulary = tokenizer ? tokenizer->vocabulary() : tokens.largest() + 1;
  if (tokens.largest() >= vocabulary) {
    throw InputError(
        "data.source: {} has the token {}, but data.tokenizer {} has only {}; use the one it was made with",
        shards.front().string(), tokens.largest(), tokenizer->name(), vocabulary);
  }
  return std::make_unique<TextDataset>(options, std::move(tokens), vocabulary, std::move(tokenizer));
}

}  // namespace rookery::data
