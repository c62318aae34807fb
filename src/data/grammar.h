#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"

namespace rookery::data {

// Random texts whose probability is known exactly.
//
// A text is an endless row of stories; a story is a fixed row of sentences; a sentence is one of several templates,
// chosen by weight. A template is text with holes: "{hero.name}" is the field `name` of the slot `hero`. A slot is
// bound at its first use in a story to one of its choices, by weight, and keeps it until the story ends.
//
// A text may start with a story, or with any sentence of one, each equally likely. What came before is then unknown,
// and need not be known: a slot that has not been used yet is as free as in a whole story.
class Grammar {
 public:
  struct Choice {
    double weight;
    std::map<std::string, std::string> fields;
  };
  struct Slot {
    std::string name;
    std::vector<Choice> choices;  // each has the same fields
  };
  struct Template {
    double weight;
    std::string text;
  };
  using Sentence = std::vector<Template>;
  enum class Start { kStory, kAnySentence };

  // Requires: weights are positive, a story is not empty, every hole names a slot and a field, at most 16 slots of at
  // most 255 choices.
  Grammar(const std::vector<Slot>& slots, const std::vector<Sentence>& sentences);

  struct Sample {
    std::string text;
    double nats = 0;  // -log P of all choices made. The text itself may be likelier: other choices may lead to it too
  };
  // A text that ends with a story and has at least `bytes` bytes.
  Sample generate(Random& random, Start start, std::size_t bytes) const;

 private:
  friend class GrammarReader;
  static constexpr std::size_t kMostSlots = 16;
  static constexpr std::uint8_t kUnbound = 255;
  using Bindings = std::array<std::uint8_t, kMostSlots>;  // the choice of every slot

  struct Piece {
    int slot = -1;  // -1: literal text
    int field = 0;
    std::string literal;
  };
  struct Words {
    double probability;
    std::vector<std::string> fields;
  };
  struct Pattern {
    double probability;
    std::vector<Piece> pieces;
  };

  Pattern parse(const Template& source, double total, const std::vector<std::vector<std::string>>& fields) const;
  const std::string& text_of(const Piece& piece, const Bindings& bindings) const;

  std::vector<std::string> names_;
  std::vector<std::vector<Words>> slots_;        // [slot][choice]
  std::vector<std::vector<Pattern>> sentences_;  // [sentence][template]
};

// Reads a text of a grammar byte by byte, and knows the exact probability of each next byte given those before it.
//
// The forward algorithm: a set of hypotheses (a place in the grammar and what each slot is bound to), each with its
// probability given the bytes so far. A byte removes those that expected another one; where a hypothesis has a choice
// ahead it splits; two that have become the same are added. Cost per byte: the number of hypotheses, a few to some
// hundred in practice.
class GrammarReader {
 public:
  // The grammar outlives the reader.
  GrammarReader(const Grammar& grammar, Grammar::Start start);

  // P(next byte = i | bytes so far), which sums to 1.
  std::array<double, 256> next() const;

  // Takes one byte, and returns its information -log P in nats. Infinite for a byte that cannot come here; the reader
  // is then at the end: whatever follows is impossible as well.
  double read(unsigned char byte);

  std::size_t hypotheses() const { return hypotheses_.size(); }

 private:
  // The next byte is `offset` of a piece that is bound.
  struct Place {
    std::uint16_t sentence = 0, pattern = 0, piece = 0, offset = 0;
    Grammar::Bindings bindings{};

    auto operator<=>(const Place&) const = default;  // NOLINT(modernize-use-nullptr)
  };
  struct Hypothesis {
    Place place;
    double probability;
  };

  void open_sentence(Place place, double probability);
  void settle(Place place, double probability);
  const std::string& text_at(const Place& place) const;
  void merge();

  const Grammar& grammar_;
  std::vector<Hypothesis> hypotheses_;
};

// Nats of the bytes [given, end) of a text given those before them.
double information(const Grammar& grammar, Grammar::Start start, std::string_view text, std::size_t given);

}  // namespace rookery::data
