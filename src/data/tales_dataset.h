#pragma once

#include <memory>

#include "data/dataset.h"

namespace rookery::data {

// The built-in tales (data/tales.h) as samples of context + 1 tokens, endless for training; 256 each for evaluation and
// test. The entropy floor of a language model is exact for bytes. For SentencePiece it is that of the text the tokens
// cover, which leaves out what little a token's border tells of the text after it; there is none if the tokenizer
// changes the text.
std::unique_ptr<Dataset> open_tales(const DataOptions& options);

}  // namespace rookery::data
