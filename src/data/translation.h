#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/random.h"
#include "data/dataset.h"

namespace rookery::data {

// A made-up language, and its translation into English: a problem for models that read one sentence and write another.
//
//   hest katu lim mi piro vanen o hort mi su vidu ta   ->   yesterday the small cat saw some old birds in the garden
//
// The verb comes last and its tense after it, adjectives follow their noun and show its number, articles follow the
// adjective, prepositions their noun. English needs the verb's form from the subject's number, "a" or "an" from
// the next word, and the order turned round: a model must learn where to look. The translation follows from the
// sentence, so its entropy is 0.
//
// Words are tokens of one vocabulary for both languages. Which split a sentence belongs to follows from the
// sentence, so the splits never overlap.
struct SentencePair {
  std::string source;
  std::string target;
};

// A sentence of any split.
SentencePair draw_sentence(Random& random);

// Throws InputError if model.context is shorter than the longest sentence.
std::unique_ptr<Dataset> open_translation(const DataOptions& options);

}  // namespace rookery::data
