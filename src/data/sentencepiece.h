#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>

#include "data/tokenizer.h"

namespace rookery::data {

// Throws InputError naming the file if it is missing or not a SentencePiece model.
std::unique_ptr<Tokenizer> open_sentencepiece(const std::filesystem::path& model);

enum class SentencePieceKind { kBpe, kUnigram };

// Learns a vocabulary from text files and writes PREFIX.model and PREFIX.vocab; returns the path of the model. Any text
// survives the round trip through such a model: nothing is normalised, and what the vocabulary lacks is spelt in bytes.
// Throws InputError if a file is missing, or if the texts cannot fill the vocabulary.
std::filesystem::path train_sentencepiece(std::span<const std::filesystem::path> texts, std::int64_t vocabulary,
                                          const std::filesystem::path& prefix,
                                          SentencePieceKind kind = SentencePieceKind::kBpe);

}  // namespace rookery::data
