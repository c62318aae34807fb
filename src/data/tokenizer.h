#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rookery::data {

using Token = std::int32_t;

// Text as a sequence of small numbers, and back. Immutable, so any thread may use it.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  virtual std::vector<Token> encode(std::string_view text) const = 0;

  // Tokens that stand for no text (padding, masks, numbers outside the vocabulary) are left out.
  virtual std::string decode(std::span<const Token> tokens) const = 0;

  virtual std::int64_t vocabulary() const = 0;  // every token is in [0, vocabulary)
  virtual std::string name() const = 0;         // as in data.tokenizer
  virtual std::string fingerprint() const = 0;  // equal for tokenizers that encode alike
};

// One token per byte, vocabulary 256. Any text survives the round trip.
std::unique_ptr<Tokenizer> make_byte_tokenizer();

// The tokenizer that data.tokenizer names: "bytes" or "sentencepiece:FILE", with FILE relative to `base_directory`.
// Throws InputError naming data.tokenizer, and the file if it is missing or no SentencePiece model.
std::unique_ptr<Tokenizer> open_tokenizer(std::string_view name, const std::filesystem::path& base_directory = {});

}  // namespace rookery::data
