#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "data/dataset.h"
#include "data/grammar.h"

namespace rookery::data {

// Small English stories from a seeded grammar: an endless text with a plot, for which the information of every byte is
// known exactly, so that a loss can be compared with the best possible one.
//
// A story has about a hundred words, begins with "Once" and ends with a blank line. Its hero, home, wish, treasure,
// mishap and helper are drawn once and come back.
class Tales {
 public:
  Tales();

  // Sample `index` of a split: text from the start of some sentence of a first story, so that every part of a story is
  // seen at every position. Ends with a story and has at least `bytes` bytes; a shorter one is a prefix of a longer
  // one.
  std::string text(std::uint64_t seed, Split split, std::uint64_t index, std::size_t bytes) const;

  // A whole story, without the blank line.
  std::string story(std::uint64_t seed, std::uint64_t index) const;

  // Nats of the bytes [given, end) of a sample given the first `given` bytes.
  double information(std::string_view sample, std::size_t given) const;

  const Grammar& grammar() const { return grammar_; }

 private:
  Grammar grammar_;
};

}  // namespace rookery::data
