#include "data/grammar.h"

#include <cmath>
#include <functional>
#include <numeric>

#include <gtest/gtest.h>

namespace rookery::data {
namespace {

using Start = Grammar::Start;

// Small, and as ambiguous as possible: choices that are prefixes of each other, that repeat, and that are empty.
const std::vector<Grammar::Slot> kSlots = {
    {"x", {{1, {{"a", "p"}, {"b", "q"}}}, {2, {{"a", "pp"}, {"b", "q"}}}, {1, {{"a", "p"}, {"b", "r"}}}}},
    {"y", {{3, {{"a", ""}}}, {1, {{"a", "p"}}}}},
};
const std::vector<Grammar::Sentence> kSentences = {
    {{1, "{x.a}{y.a}"}, {2, "p{x.a}"}},
    {{1, "{x.b}"}, {1, "{x.b}{y.a}."}, {1, "q"}},
};
const Grammar& tiny() {
  static const Grammar grammar(kSlots, kSentences);
  return grammar;
}

// An independent reference: every derivation in turn, with its text, up to texts of `bytes` bytes.
class Enumeration {
 public:
  Enumeration(Start start, std::size_t bytes) : bytes_(bytes) {
    const std::size_t starts = start == Start::kStory ? 1 : kSentences.size();
    for (std::size_t first = 0; first < starts; ++first) sentence(first, {-1, -1}, "", 1.0 / starts);
  }

  double probability_of_prefix(std::string_view prefix) const {
    double sum = 0;
    for (const auto& [text, p] : texts_) sum += text.starts_with(prefix) ? p : 0;
    return sum;
  }

 private:
  static double share(const auto& choices, std::size_t i) {
    double total = 0;
    for (const auto& choice : choices) total += choice.weight;
    return choices[i].weight / total;
  }

  void sentence(std::size_t k, std::vector<int> bound, const std::string& text, double p) {
    if (text.size() >= bytes_) {
      texts_[text.substr(0, bytes_)] += p;
      return;
    }
    if (k == kSentences.size()) return sentence(0, {-1, -1}, text, p);
    for (std::size_t i = 0; i < kSentences[k].size(); ++i) {
      holes(k, kSentences[k][i].text, bound, text, p * share(kSentences[k], i));
    }
  }

  void holes(std::size_t k, const std::string& rest, std::vector<int> bound, const std::string& text, double p) {
    const std::size_t open = rest.find('{');
    if (open == std::string::npos) return sentence(k + 1, bound, text + rest, p);
    const std::size_t slot = rest[open + 1] == 'x' ? 0 : 1;
    const std::string field(1, rest[open + 3]), after = rest.substr(open + 5), before = text + rest.substr(0, open);
    const auto& choices = kSlots[slot].choices;
    for (std::size_t c = 0; c < choices.size(); ++c) {
      if (bound[slot] >= 0 && bound[slot] != static_cast<int>(c)) continue;
      std::vector<int> now = bound;
      now[slot] = static_cast<int>(c);
      holes(k, after, now, before + choices[c].fields.at(field), bound[slot] >= 0 ? p : p * share(choices, c));
    }
  }

  std::size_t bytes_;
  std::map<std::string, double> texts_;
};

class GrammarStartTest : public testing::TestWithParam<Start> {};

TEST_P(GrammarStartTest, InformationIsThatOfASumOverAllDerivations) {
  const Enumeration reference(GetParam(), 7);
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    Random random({seed});
    const std::string text = tiny().generate(random, GetParam(), 7).text.substr(0, 7);
    const double whole = reference.probability_of_prefix(text);
    EXPECT_NEAR(information(tiny(), GetParam(), text, 0), -std::log(whole), 1e-12) << text;
    const double first = reference.probability_of_prefix(text.substr(0, 3));
    EXPECT_NEAR(information(tiny(), GetParam(), text, 3), -std::log(whole / first), 1e-12) << text;
  }
}

TEST_P(GrammarStartTest, NextBytesMatchTheReferenceAndSumToOne) {
  const Enumeration reference(GetParam(), 6);
  Random random({3});
  const std::string text = tiny().generate(random, GetParam(), 6).text;
  GrammarReader reader(tiny(), GetParam());
  for (std::size_t i = 0; i < 5; ++i) {
    const auto next = reader.next();
    EXPECT_NEAR(std::accumulate(next.begin(), next.end(), 0.0), 1, 1e-12);
    const double so_far = reference.probability_of_prefix(text.substr(0, i));
    for (const char c : {'p', 'q', 'r', '.', 'z'}) {
      EXPECT_NEAR(next[c], reference.probability_of_prefix(text.substr(0, i) + c) / so_far, 1e-12) << i << c;
    }
    reader.read(text[i]);
  }
}

INSTANTIATE_TEST_SUITE_P(Starts, GrammarStartTest, testing::Values(Start::kStory, Start::kAnySentence));

TEST(GrammarTest, GeneratesTextsWithTheirProbability) {
  std::map<std::string, int> count;
  constexpr int kDraws = 20000;
  Random random({5});
  for (int i = 0; i < kDraws; ++i) ++count[tiny().generate(random, Start::kStory, 3).text.substr(0, 3)];
  for (const auto& [text, n] : count) {
    const double p = std::exp(-information(tiny(), Start::kStory, text, 0));
    EXPECT_NEAR(n / double{kDraws}, p, 5 * std::sqrt(p / kDraws)) << text;
  }
}

TEST(GrammarTest, ImpossibleTextHasInfiniteInformation) {
  EXPECT_TRUE(std::isinf(information(tiny(), Start::kStory, "pz", 0)));
  EXPECT_TRUE(std::isinf(information(tiny(), Start::kStory, "zp", 1)));
}

}  // namespace
}  // namespace rookery::data
