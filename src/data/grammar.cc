#include "data/grammar.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/error.h"

namespace rookery::data {
namespace {

template <typename Weighted>
double total_weight(const std::vector<Weighted>& choices) {
  double total = 0;
  for (const auto& choice : choices) {
    ROOKERY_CHECK(choice.weight > 0, "weight = {}", choice.weight);
    total += choice.weight;
  }
  return total;
}

// Draws one of `choices` by its probability, and adds its information to `nats`.
template <typename Likely>
std::size_t draw(Random& random, const std::vector<Likely>& choices, double& nats) {
  double left = random.uniform();
  std::size_t i = 0;
  while (i + 1 < choices.size() && left >= choices[i].probability) left -= choices[i++].probability;
  nats -= std::log(choices[i].probability);
  return i;
}

std::size_t index_of(const std::vector<std::string>& names, std::string_view name, std::string_view text) {
  const auto found = std::find(names.begin(), names.end(), name);
  ROOKERY_CHECK(found != names.end(), "'{}' in '{}'", name, text);
  return static_cast<std::size_t>(found - names.begin());
}

}  // namespace

Grammar::Grammar(const std::vector<Slot>& slots, const std::vector<Sentence>& sentences) {
  ROOKERY_CHECK(slots.size() <= kMostSlots && !sentences.empty());
  std::vector<std::vector<std::string>> fields;
  for (const Slot& slot : slots) {
    ROOKERY_CHECK(!slot.choices.empty() && slot.choices.size() < kUnbound, "slot = {}", slot.name);
    names_.push_back(slot.name);
    std::vector<std::string>& keys = fields.emplace_back();
    for (const auto& [key, text] : slot.choices.front().fields) keys.push_back(key);
    std::vector<Words>& choices = slots_.emplace_back();
    const double total = total_weight(slot.choices);
    for (const Choice& choice : slot.choices) {
      ROOKERY_CHECK(choice.fields.size() == keys.size(), "slot = {}", slot.name);
      Words& words = choices.emplace_back(Words{choice.weight / total, {}});
      for (const std::string& key : keys) words.fields.push_back(choice.fields.at(key));
    }
  }
  for (const Sentence& sentence : sentences) {
    std::vector<Pattern>& patterns = sentences_.emplace_back();
    const double total = total_weight(sentence);
    for (const Template& source : sentence) patterns.push_back(parse(source, total, fields));
  }
}

Grammar::Pattern Grammar::parse(const Template& source, double total,
                                const std::vector<std::vector<std::string>>& fields) const {
  Pattern pattern{source.weight / total, {}};
  std::string_view rest = source.text;
  while (!rest.empty()) {
    if (rest.front() != '{') {
      const std::string_view literal = rest.substr(0, rest.find('{'));
      pattern.pieces.push_back({-1, 0, std::string(literal)});
      rest.remove_prefix(literal.size());
      continue;
    }
    const std::size_t dot = rest.find('.'), end = rest.find('}');
    ROOKERY_CHECK(dot < end && end != std::string_view::npos, "'{}'", source.text);
    const std::size_t slot = index_of(names_, rest.substr(1, dot - 1), source.text);
    const std::size_t field = index_of(fields[slot], rest.substr(dot + 1, end - dot - 1), source.text);
    pattern.pieces.push_back({static_cast<int>(slot), static_cast<int>(field), ""});
    rest.remove_prefix(end + 1);
  }
  ROOKERY_CHECK(!pattern.pieces.empty());
  return pattern;
}

const std::string& Grammar::text_of(const Piece& piece, const Bindings& bindings) const {
  return piece.slot < 0 ? piece.literal : slots_[piece.slot][bindings[piece.slot]].fields[piece.field];
}

Grammar::Sample Grammar::generate(Random& random, Start start, std::size_t bytes) const {
  Sample sample;
  std::size_t sentence = 0;
  if (start == Start::kAnySentence) {
    sentence = random.below(sentences_.size());
    sample.nats += std::log(static_cast<double>(sentences_.size()));
  }
  while (sample.text.size() < bytes) {
    Bindings bindings;
    bindings.fill(kUnbound);
    for (; sentence < sentences_.size(); ++sentence) {
      const auto& patterns = sentences_[sentence];
      for (const Piece& piece : patterns[draw(random, patterns, sample.nats)].pieces) {
        if (piece.slot >= 0 && bindings[piece.slot] == kUnbound) {
          bindings[piece.slot] = static_cast<std::uint8_t>(draw(random, slots_[piece.slot], sample.nats));
        }
        sample.text += text_of(piece, bindings);
      }
    }
    sentence = 0;
  }
  return sample;
}

GrammarReader::GrammarReader(const Grammar& grammar, Grammar::Start start) : grammar_(grammar) {
  const std::size_t starts = start == Grammar::Start::kStory ? 1 : grammar.sentences_.size();
  for (std::size_t sentence = 0; sentence < starts; ++sentence) {
    Place place;
    place.sentence = static_cast<std::uint16_t>(sentence);
    place.bindings.fill(Grammar::kUnbound);
    open_sentence(place, 1.0 / static_cast<double>(starts));
  }
}

const std::string& GrammarReader::text_at(const Place& place) const {
  return grammar_.text_of(grammar_.sentences_[place.sentence][place.pattern].pieces[place.piece], place.bindings);
}

// Splits into the templates of the place's sentence.
void GrammarReader::open_sentence(Place place, double probability) {
  const auto& patterns = grammar_.sentences_[place.sentence];
  place.piece = place.offset = 0;
  for (std::size_t i = 0; i < patterns.size(); ++i) {
    place.pattern = static_cast<std::uint16_t>(i);
    settle(place, probability * patterns[i].probability);
  }
}

// Moves on to where the next byte is, splitting at every choice on the way, and keeps what it finds.
void GrammarReader::settle(Place place, double probability) {
  const auto& pieces = grammar_.sentences_[place.sentence][place.pattern].pieces;
  for (; place.piece < pieces.size(); ++place.piece, place.offset = 0) {
    const int slot = pieces[place.piece].slot;
    if (slot >= 0 && place.bindings[slot] == Grammar::kUnbound) {
      const auto& choices = grammar_.slots_[slot];
      for (std::size_t i = 0; i < choices.size(); ++i) {
        place.bindings[slot] = static_cast<std::uint8_t>(i);
        settle(place, probability * choices[i].probability);
      }
      return;
    }
    if (place.offset < text_at(place).size()) {
      hypotheses_.push_back({place, probability});
      return;
    }
  }
  if (++place.sentence == grammar_.sentences_.size()) {
    place.sentence = 0;
    place.bindings.fill(Grammar::kUnbound);
  }
  open_sentence(place, probability);
}

// Only the end of a sentence makes hypotheses the same that were not, but looking is cheap.
void GrammarReader::merge() {
  std::sort(hypotheses_.begin(), hypotheses_.end(),
            [](const Hypothesis& a, const Hypothesis& b) { return a.place < b.place; });
  std::size_t kept = 0;
  for (std::size_t i = 0; i < hypotheses_.size(); ++i) {
    if (kept > 0 && hypotheses_[kept - 1].place == hypotheses_[i].place) {
      hypotheses_[kept - 1].probability += hypotheses_[i].probability;
    } else {
      hypotheses_[kept++] = hypotheses_[i];
    }
  }
  hypotheses_.resize(kept);
}

std::array<double, 256> GrammarReader::next() const {
  std::array<double, 256> probability{};
  for (const auto& [place, p] : hypotheses_) probability[static_cast<unsigned char>(text_at(place)[place.offset])] += p;
  return probability;
}

double GrammarReader::read(unsigned char byte) {
  const std::vector<Hypothesis> before = std::exchange(hypotheses_, {});
  double matching = 0;
  for (const auto& [place, p] : before) {
    if (static_cast<unsigned char>(text_at(place)[place.offset]) == byte) matching += p;
  }
  if (matching == 0) return std::numeric_limits<double>::infinity();
  bool split = false;
  for (auto [place, p] : before) {
    if (static_cast<unsigned char>(text_at(place)[place.offset]) != byte) continue;
    ++place.offset;
    split |= place.offset == text_at(place).size();
    settle(place, p / matching);
  }
  if (split) merge();
  return -std::log(matching);
}

double information(const Grammar& grammar, Grammar::Start start, std::string_view text, std::size_t given) {
  GrammarReader reader(grammar, start);
  double nats = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const double byte = reader.read(static_cast<unsigned char>(text[i]));
    if (i >= given) nats += byte;
    if (std::isinf(byte)) return byte;
  }
  return nats;
}

}  // namespace rookery::data
