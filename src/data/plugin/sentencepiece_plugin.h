#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

// The border to SentencePiece, which lives in a shared object of its own, librookery_sentencepiece.so.
//
// Why: libsentencepiece exports the functions of an old protobuf that it contains, libtorch needs a newer libprotobuf,
// and the dynamic linker would take either's functions for the other. A program linked with both crashes before main().
// So the plugin is loaded on demand with its own names ahead of the program's, and nothing of it is visible outside.
// It is self-contained and throws nothing; both sides are built together, so C++ types may pass.

namespace rookery::data {

class SentencePieceModel {
 public:
  virtual ~SentencePieceModel() = default;
  virtual std::vector<std::int32_t> encode(std::string_view text) const = 0;
  virtual std::string decode(const std::vector<std::int32_t>& tokens) const = 0;  // Requires: tokens in [0, size())
  virtual std::int32_t size() const = 0;
};

struct SentencePiecePlugin {
  // nullptr if these bytes are no model. The caller deletes it.
  SentencePieceModel* (*open)(std::string_view serialized);

  // Options as of spm_train. Returns what went wrong, or "".
  std::string (*train)(const std::unordered_map<std::string, std::string>& options);
};

// The one name that the plugin exports; of type `const SentencePiecePlugin`.
inline constexpr const char* kSentencePiecePluginName = "rookery_sentencepiece_plugin";

}  // namespace rookery::data
