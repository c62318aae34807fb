#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "data/tokenizer.h"

namespace rookery::data {

// A long row of tokens: text that was tokenised into memory, or token files that stay on disk. Immutable.
class Tokens {
 public:
  // The texts one after another, with a blank line between them. Throws InputError naming a file that is missing.
  static Tokens from_texts(std::span<const std::filesystem::path> texts, const Tokenizer& tokenizer);

  // Files of raw uint16 tokens in this machine's byte order, mapped. Reads them once to find the largest token.
  // Throws InputError naming a file that is missing, or whose size is odd.
  static Tokens from_shards(std::span<const std::filesystem::path> shards);

  std::uint64_t size() const { return size_; }
  Token largest() const { return largest_; }

  // Requires: begin + out.size() <= size().
  void copy(std::uint64_t begin, std::span<std::int64_t> out) const;

  // Of the number of tokens, and of the tokens: all of them, or of long rows 64 MiB in blocks spread over each part.
  std::string fingerprint() const;

 private:
  template <typename T>
  void append(std::vector<T> tokens);

  // A part is of 16 or 32 bits per token.
  struct Part {
    std::uint64_t begin;
    std::span<const std::byte> bytes;
    bool wide;

    std::uint64_t size() const { return bytes.size() / (wide ? 4 : 2); }
  };
  std::vector<Part> parts_;
  std::uint64_t size_ = 0;
  Token largest_ = 0;
  std::vector<MappedFile> files_;             // what the parts point into
  std::vector<std::shared_ptr<void>> owned_;  // likewise
};

}  // namespace rookery::data
