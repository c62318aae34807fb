#include "data/tales.h"

#include <cmath>
#include <numeric>
#include <set>
#include <sstream>

#include <gtest/gtest.h>

namespace rookery::data {
namespace {

const Tales& tales() {
  static const Tales instance;
  return instance;
}

TEST(TalesTest, StoriesAreShortAndBeginWithOnce) {
  std::set<std::string> words;
  std::size_t total = 0;
  for (std::uint64_t i = 0; i < 300; ++i) {
    const std::string story = tales().story(1, i);
    EXPECT_TRUE(story.starts_with("Once")) << story;
    EXPECT_EQ(story.find('\n'), std::string::npos);
    std::istringstream in(story);
    std::size_t count = 0;
    for (std::string word; in >> word; ++count) words.insert(word);
    EXPECT_GE(count, 80u) << story;
    EXPECT_LE(count, 135u) << story;
    total += count;
  }
  EXPECT_LT(total, 300u * 120);
  EXPECT_LT(words.size(), 400u);
}

TEST(TalesTest, ArticlesFitTheirNouns) {
  for (std::uint64_t i = 0; i < 300; ++i) {
    std::istringstream in(tales().story(2, i));
    std::string before;
    for (std::string word; in >> word; before = word) {
      const bool vowel = word == "honest" || std::string_view("aeiou").find(word[0]) != std::string_view::npos;
      if (before == "a" || before == "A") {
        EXPECT_FALSE(vowel) << word;
      }
      if (before == "an" || before == "An") {
        EXPECT_TRUE(vowel) << word;
      }
    }
  }
}

TEST(TalesTest, SamplesArePureAndSplitsDiffer) {
  const std::string once = tales().text(1, Split::kTrain, 5, 200);
  EXPECT_EQ(once, tales().text(1, Split::kTrain, 5, 200));
  EXPECT_TRUE(tales().text(1, Split::kTrain, 5, 3000).starts_with(once));
  EXPECT_NE(once, tales().text(1, Split::kEval, 5, 200));
  EXPECT_NE(once, tales().text(1, Split::kTrain, 6, 200));
  EXPECT_NE(once, tales().text(2, Split::kTrain, 5, 200));
}

TEST(TalesTest, NextBytesSumToOneEverywhere) {
  GrammarReader reader(tales().grammar(), Grammar::Start::kAnySentence);
  for (const char c : tales().text(1, Split::kEval, 0, 1200)) {
    const auto next = reader.next();
    EXPECT_NEAR(std::accumulate(next.begin(), next.end(), 0.0), 1, 1e-9);
    EXPECT_NEAR(reader.read(static_cast<unsigned char>(c)), -std::log(next[static_cast<unsigned char>(c)]), 1e-9);
  }
}

// Whoever reads a whole story knows every choice that was made, so both ways to count must agree.
TEST(TalesTest, InformationIsThatOfTheChoicesMade) {
  Random random({9});
  for (int i = 0; i < 100; ++i) {
    const auto sample = tales().grammar().generate(random, Grammar::Start::kStory, 1);
    EXPECT_NEAR(information(tales().grammar(), Grammar::Start::kStory, sample.text, 0), sample.nats, 1e-9)
        << sample.text;
  }
}

// Part of a story can be reached in several ways, so its information is below that of the choices, but not by much.
TEST(TalesTest, InformationOfAWindowIsAtMostThatOfTheChoices) {
  Random random({11});
  double window = 0, choices = 0;
  for (int i = 0; i < 200; ++i) {
    const auto sample = tales().grammar().generate(random, Grammar::Start::kAnySentence, 1000);
    const double nats = tales().information(sample.text, 0);
    EXPECT_LE(nats, sample.nats + 1e-9);
    window += nats;
    choices += sample.nats;
  }
  EXPECT_GT(window, 0.97 * choices);
}

}  // namespace
}  // namespace rookery::data
