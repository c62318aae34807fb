#pragma once

#include <filesystem>
#include <memory>
#include <span>

#include "data/dataset.h"

namespace rookery::data {

// Windows of context + 1 tokens of a long text. The first 90 % of it are for training, the next 5 % for evaluation, the
// last 5 % for tests; of a short text, evaluation and test get one window each. Windows follow each other, so that an
// epoch reads (almost) every token once; those for training start at another offset in every epoch.
//
// Throws InputError naming the source if the text is too short, or a token is not in the vocabulary.

// Text files, one after another.
std::unique_ptr<Dataset> open_texts(const DataOptions& options, std::span<const std::filesystem::path> texts);

// Files of uint16 tokens. The vocabulary is the tokenizer's, or with "bytes" one more than the largest token: there is
// no tokenizer then, as nobody knows what the numbers mean.
std::unique_ptr<Dataset> open_shards(const DataOptions& options, std::span<const std::filesystem::path> shards);

}  // namespace rookery::data
