#include "data/tokens.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace rookery::data {
namespace {

// A tokenizer sees a text in pieces of whole lines: SentencePiece needs many times the memory of what it encodes.
constexpr std::size_t kEncodedAtOnce = std::size_t{1} << 16;

template <typename T>
std::vector<T> encode(std::string_view text, const Tokenizer& tokenizer) {
  std::vector<T> tokens;
  while (!text.empty()) {
    std::size_t length = std::min(text.size(), kEncodedAtOnce);
    if (length < text.size()) {
      const std::size_t line_end = text.rfind('\n', length - 1);
      if (line_end != std::string_view::npos) {
        length = line_end + 1;
      } else {  // at least not inside a character of UTF-8, whose later bytes are 10xxxxxx
        while (length > 1 && (static_cast<unsigned char>(text[length]) & 0xc0) == 0x80) --length;
      }
    }
    for (const Token token : tokenizer.encode(text.substr(0, length))) tokens.push_back(static_cast<T>(token));
    text.remove_prefix(length);
  }
  return tokens;
}

template <typename T>
T token_at(std::span<const std::byte> bytes, std::uint64_t i) {
  T token;
  std::memcpy(&token, bytes.data() + i * sizeof(T), sizeof(T));
  return token;
}

}  // namespace

template <typename T>
void Tokens::append(std::vector<T> tokens) {
  if (tokens.empty()) return;
  const auto kept = std::make_shared<std::vector<T>>(std::move(tokens));
  parts_.push_back({size_, std::as_bytes(std::span(*kept)), sizeof(T) == 4});
  owned_.push_back(kept);
  size_ += kept->size();
  largest_ = std::max(largest_, static_cast<Token>(*std::max_element(kept->begin(), kept->end())));
}

Tokens Tokens::from_texts(std::span<const std::filesystem::path> texts, const Tokenizer& tokenizer) {
  Tokens tokens;
  const auto add = [&](std::string_view text) {
    if (tokenizer.vocabulary() <= 65536) {
      tokens.append(encode<std::uint16_t>(text, tokenizer));
    } else {
      tokens.append(encode<std::uint32_t>(text, tokenizer));
    }
  };
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const MappedFile file(texts[i]);
    if (i > 0) add("\n\n");
    add({reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()});
  }
  return tokens;
}

Tokens Tokens::from_shards(std::span<const std::filesystem::path> shards) {
  Tokens tokens;
  for (const auto& path : shards) {
    const auto bytes = tokens.files_.emplace_back(path).bytes();
    if (bytes.size() % 2 != 0) {
      throw InputError("data.source: {} has {} bytes, but a file of uint16 tokens has two for each; it may be cut off",
                       path.string(), bytes.size());
    }
    const Part& part = tokens.parts_.emplace_back(Part{tokens.size_, bytes, false});
    tokens.size_ += part.size();
    for (std::uint64_t i = 0; i < part.size(); ++i) {
      tokens.largest_ = std::max<Token>(tokens.largest_, token_at<std::uint16_t>(bytes, i));
    }
  }
  return tokens;
}

void Tokens::copy(std::uint64_t begin, std::span<std::int64_t> out) const {
  ROOKERY_CHECK(begin + out.size() <= size_, "begin = {}, tokens = {}, size = {}", begin, out.size(), size_);
  auto part = std::upper_bound(parts_.begin(), parts_.end(), begin,
                               [](std::uint64_t position, const Part& p) { return position < p.begin + p.size(); });
  for (std::uint64_t i = 0; i < out.size(); ++i) {
    while (begin + i >= part->begin + part->size()) ++part;
    const std::uint64_t at = begin + i - part->begin;
    out[i] = part->wide ? token_at<std::uint32_t>(part->bytes, at) : token_at<std::uint16_t>(part->bytes, at);
  }
}

std::string Tokens::fingerprint() const {
  constexpr std::size_t kBlock = 4096, kBlocks = (std::size_t{64} << 20) / kBlock;
  std::string summary = std::to_string(size_);
  for (const Part& part : parts_) {
    const std::size_t blocks = (part.bytes.size() + kBlock - 1) / kBlock;
    if (blocks <= kBlocks) {
      summary += digest(part.bytes);
      continue;
    }
    std::vector<std::byte> spread;
    for (std::size_t i = 0; i < kBlocks; ++i) {
      // The first and the last block are always among them.
      const std::size_t begin = (blocks - 1) * i / (kBlocks - 1) * kBlock;
      const auto block = part.bytes.subspan(begin, std::min(kBlock, part.bytes.size() - begin));
      spread.insert(spread.end(), block.begin(), block.end());
    }
    summary += digest(spread);
  }
  return digest(std::as_bytes(std::span(summary)));
}

}  // namespace rookery::data
