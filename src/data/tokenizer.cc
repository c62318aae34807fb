#include "data/tokenizer.h"

#include "base/error.h"
#include "data/sentencepiece.h"

namespace rookery::data {
namespace {

class ByteTokenizer final : public Tokenizer {
 public:
  std::vector<Token> encode(std::string_view text) const override {
    std::vector<Token> tokens;
    tokens.reserve(text.size());
    for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
    return tokens;
  }

  std::string decode(std::span<const Token> tokens) const override {
    std::string text;
    for (const Token token : tokens) {
      if (token >= 0 && token < 256) text += static_cast<char>(token);
    }
    return text;
  }

  std::int64_t vocabulary() const override { return 256; }
  std::string name() const override { return "bytes"; }
  std::string fingerprint() const override { return "bytes"; }
};

}  // namespace

std::unique_ptr<Tokenizer> make_byte_tokenizer() { return std::make_unique<ByteTokenizer>(); }

std::unique_ptr<Tokenizer> open_tokenizer(std::string_view name, const std::filesystem::path& base_directory) {
  constexpr std::string_view kPrefix = "sentencepiece:";
  if (name == "bytes") return make_byte_tokenizer();
  if (name.starts_with(kPrefix) && name.size() > kPrefix.size()) {
    return open_sentencepiece(base_directory / name.substr(kPrefix.size()));
  }
  throw InputError(R"(data.tokenizer: "{}" is unknown; use "bytes" or "sentencepiece:FILE")", name);
}

}  // namespace rookery::data
