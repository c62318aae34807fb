#include "data/translation.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <sstream>

#include <ATen/ops/full.h>

#include "base/error.h"
#include "base/file.h"

namespace rookery::data {
namespace {

struct Noun {
  std::string foreign, singular, plural;
};
struct Adjective {
  std::string foreign, english;  // the foreign plural has "en" appended
};
struct Verb {
  std::string foreign, plain, third, past;
};
struct Pair {
  std::string foreign, english;
};

const std::array<Noun, 12> kBeings = {{{"katu", "cat", "cats"},
                                       {"piro", "bird", "birds"},
                                       {"vulp", "fox", "foxes"},
                                       {"elda", "owl", "owls"},
                                       {"nimo", "child", "children"},
                                       {"regu", "king", "kings"},
                                       {"masu", "mouse", "mice"},
                                       {"brog", "frog", "frogs"},
                                       {"anto", "ant", "ants"},
                                       {"wolu", "wolf", "wolves"},
                                       {"damo", "woman", "women"},
                                       {"ezel", "donkey", "donkeys"}}};
const std::array<Adjective, 8> kAdjectives = {{{"lim", "small"},
                                               {"gran", "big"},
                                               {"van", "old"},
                                               {"ruz", "red"},
                                               {"fain", "angry"},
                                               {"dol", "happy"},
                                               {"ozu", "eager"},
                                               {"kel", "clever"}}};
const std::array<Verb, 9> kVerbs = {{{"vidu", "see", "sees", "saw"},
                                     {"hunu", "hear", "hears", "heard"},
                                     {"amu", "love", "loves", "loved"},
                                     {"zoku", "find", "finds", "found"},
                                     {"folu", "follow", "follows", "followed"},
                                     {"helu", "help", "helps", "helped"},
                                     {"kasu", "catch", "catches", "caught"},
                                     {"lernu", "teach", "teaches", "taught"},
                                     {"noru", "feed", "feeds", "fed"}}};
const std::array<Pair, 8> kPlaces = {{{"hort", "garden"},
                                      {"silu", "forest"},
                                      {"domo", "house"},
                                      {"akvo", "lake"},
                                      {"mont", "mountain"},
                                      {"urbo", "town"},
                                      {"ponto", "bridge"},
                                      {"turo", "tower"}}};
const std::array<Pair, 4> kPositions = {{{"su", "in"}, {"pre", "near"}, {"tras", "behind"}, {"cis", "before"}}};
enum Tense { kPresent, kPast, kFuture };
const std::array<std::string, 3> kTenses = {"na", "ta", "vo"};
const std::array<std::vector<Pair>, 3> kTimes = {{{{"hodi", "today"}, {"sem", "always"}},
                                                  {{"hest", "yesterday"}, {"olim", "once"}},
                                                  {{"krai", "tomorrow"}, {"bald", "soon"}}}};
constexpr const char* kDefinite = "mi";
constexpr const char* kIndefinite = "o";

using Words = std::vector<std::string>;

template <typename List>
const auto& pick(Random& random, const List& list) {
  return list[random.below(list.size())];
}

bool chance(Random& random, double probability) { return random.uniform() < probability; }

struct NounPhrase {
  Words foreign, english;
  bool plural;
};

NounPhrase draw_noun_phrase(Random& random) {
  const Noun& noun = pick(random, kBeings);
  const bool plural = chance(random, 0.4), definite = chance(random, 0.6), described = chance(random, 0.6);
  // Without an adjective, the plural shows at the noun.
  NounPhrase phrase{{noun.foreign}, {plural ? noun.plural : noun.singular}, plural};
  std::string& bearer = phrase.foreign.back();
  if (described) {
    const Adjective& adjective = pick(random, kAdjectives);
    phrase.foreign.push_back(adjective.foreign + (plural ? "en" : ""));
    phrase.english.insert(phrase.english.begin(), adjective.english);
  } else if (plural) {
    bearer += "en";
  }
  phrase.foreign.emplace_back(definite ? kDefinite : kIndefinite);
  const bool vowel = std::string_view("aeiou").find(phrase.english[0][0]) != std::string_view::npos;
  phrase.english.insert(phrase.english.begin(), definite ? "the" : plural ? "some" : vowel ? "an" : "a");
  return phrase;
}

void append(Words& words, const Words& more) { words.insert(words.end(), more.begin(), more.end()); }

std::string joined(const Words& words) {
  std::string text;
  for (const std::string& word : words) {
    if (!text.empty()) text += ' ';
    text += word;
  }
  return text;
}

constexpr Token kPad = 0, kBegin = 1, kEnd = 2;
constexpr Token kSpecial = 3;

// Words between spaces.
class WordTokenizer final : public Tokenizer {
 public:
  WordTokenizer() : words_(kSpecial) {
    std::set<std::string> words = {kDefinite, kIndefinite, "the", "a", "an", "some", "will"};
    for (const auto& w : kBeings) words.insert({w.foreign, w.foreign + "en", w.singular, w.plural});
    for (const auto& w : kAdjectives) words.insert({w.foreign, w.foreign + "en", w.english});
    for (const auto& w : kVerbs) words.insert({w.foreign, w.plain, w.third, w.past});
    for (const auto& w : kPlaces) words.insert({w.foreign, w.english});
    for (const auto& w : kPositions) words.insert({w.foreign, w.english});
    words.insert(kTenses.begin(), kTenses.end());
    for (const auto& times : kTimes) {
      for (const auto& w : times) words.insert({w.foreign, w.english});
    }
    words_.insert(words_.end(), words.begin(), words.end());
    for (std::size_t i = kSpecial; i < words_.size(); ++i) tokens_[words_[i]] = static_cast<Token>(i);
  }

  std::vector<Token> encode(std::string_view text) const override {
    std::vector<Token> tokens;
    std::istringstream in{std::string(text)};
    for (std::string word; in >> word;) {
      const auto found = tokens_.find(word);
      if (found == tokens_.end()) throw InputError("'{}' is not a word of the translation data", word);
      tokens.push_back(found->second);
    }
    return tokens;
  }

  std::string decode(std::span<const Token> tokens) const override {
    Words words;
    for (const Token token : tokens) {
      if (token >= kSpecial && token < vocabulary()) words.push_back(words_[static_cast<std::size_t>(token)]);
    }
    return joined(words);
  }

  std::int64_t vocabulary() const override { return static_cast<std::int64_t>(words_.size()); }
  std::string name() const override { return "words"; }
  std::string fingerprint() const override {
    const std::string all = joined(words_);
    return digest(std::as_bytes(std::span(all)));
  }

 private:
  Words words_;  // by token
  std::map<std::string, Token> tokens_;
};

// One sentence in sixteen is for evaluation, one for tests.
Split split_of(const std::string& source) {
  const std::uint64_t part = word_of(source) % 16;
  return part == 0 ? Split::kEval : part == 1 ? Split::kTest : Split::kTrain;
}

class TranslationDataset final : public Dataset {
 public:
  explicit TranslationDataset(const DataOptions& options) : seed_(options.seed) {
    if (options.context < kLength) {
      throw InputError("model.context: is {}, but the sentences of data.source = \"translation\" need {}",
                       options.context, kLength);
    }
    info_.problem = Problem::kTranslation;
    info_.vocabulary = tokenizer_.vocabulary();
    info_.length = info_.source_length = kLength;
    info_.begin_token = kBegin;
    info_.end_token = kEnd;
    info_.description = fmt::format("translation, {} words", info_.vocabulary - kSpecial);
  }

  const DataInfo& info() const override { return info_; }
  std::uint64_t size(Split split) const override { return split == Split::kTrain ? 0 : 256; }
  std::optional<double> entropy_floor(std::uint64_t) const override { return 0; }
  const Tokenizer* tokenizer() const override { return &tokenizer_; }

  std::string fingerprint() const override {
    const std::string facts = fmt::format("translation 1 {} {}", seed_, tokenizer_.fingerprint());
    return digest(std::as_bytes(std::span(facts)));
  }

  Batch batch(Split split, std::span<const Sampler::Place> places) const override {
    ROOKERY_CHECK(!places.empty());
    const auto rows = static_cast<std::int64_t>(places.size());
    Batch batch;
    batch.inputs = {at::full({rows, kLength}, kPad, at::kLong), at::full({rows, kLength}, kPad, at::kLong),
                    at::full({rows}, 0, at::kLong)};
    batch.targets = at::full({rows, kLength}, kIgnoredTarget, at::kLong);
    batch.samples = rows;
    batch.tokens = rows * kLength;
    for (std::int64_t i = 0; i < rows; ++i) {
      const SentencePair pair = sentence(split, places[static_cast<std::size_t>(i)].index);
      const auto row_of = [&](const at::Tensor& tensor) { return tensor.data_ptr<std::int64_t>() + i * kLength; };
      std::vector<Token> source = tokenizer_.encode(pair.source), target = tokenizer_.encode(pair.target);
      source.push_back(kEnd);
      target.push_back(kEnd);
      ROOKERY_CHECK(source.size() <= kLength && target.size() <= kLength, "{} -> {}", pair.source, pair.target);
      std::copy(source.begin(), source.end(), row_of(batch.inputs[0]));
      row_of(batch.inputs[1])[0] = kBegin;
      std::copy(target.begin(), target.end() - 1, row_of(batch.inputs[1]) + 1);
      std::copy(target.begin(), target.end(), row_of(batch.targets));
      batch.inputs[2].data_ptr<std::int64_t>()[i] = static_cast<std::int64_t>(source.size());
      batch.loss_terms += static_cast<std::int64_t>(target.size());
    }
    return batch;
  }

 private:
  // time, two noun phrases of 3, a place of 3, verb, tense, end; English: the same with "will" for the tense.
  static constexpr std::int64_t kLength = 13;

  SentencePair sentence(Split split, std::uint64_t index) const {
    Random random({seed_, word_of("translation"), static_cast<std::uint64_t>(split), index});
    while (true) {
      SentencePair pair = draw_sentence(random);
      if (split_of(pair.source) == split) return pair;
    }
  }

  std::uint64_t seed_;
  WordTokenizer tokenizer_;
  DataInfo info_;
};

}  // namespace

SentencePair draw_sentence(Random& random) {
  const NounPhrase subject = draw_noun_phrase(random), object = draw_noun_phrase(random);
  const Verb& verb = pick(random, kVerbs);
  const auto tense = static_cast<Tense>(random.below(3));
  Words foreign, english;
  if (chance(random, 0.5)) {
    const Pair& time = pick(random, kTimes[tense]);
    foreign.push_back(time.foreign);
    english.push_back(time.english);
  }
  append(foreign, subject.foreign);
  append(english, subject.english);
  if (tense == kFuture) english.emplace_back("will");
  english.push_back(tense == kPast ? verb.past : tense == kPresent && !subject.plural ? verb.third : verb.plain);
  append(foreign, object.foreign);
  append(english, object.english);
  if (chance(random, 0.5)) {
    const Pair &where = pick(random, kPlaces), &position = pick(random, kPositions);
    append(foreign, {where.foreign, kDefinite, position.foreign});
    append(english, {position.english, "the", where.english});
  }
  append(foreign, {verb.foreign, kTenses[tense]});
  return {joined(foreign), joined(english)};
}

std::unique_ptr<Dataset> open_translation(const DataOptions& options) {
  return std::make_unique<TranslationDataset>(options);
}

}  // namespace rookery::data
