#include "base/random.h"

#include <algorithm>
#include <limits>
#include <set>
#include <vector>

#include <gtest/gtest.h>

namespace rookery {
namespace {

using Block = std::array<std::uint32_t, 4>;

// Random123's kat_vectors, "philox4x32 10".
TEST(Philox, GivesThePublishedBlocks) {
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr std::uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(philox({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Random, SameWordsGiveTheSameDrawsAndOthersDoNot) {
  EXPECT_EQ(Random({1, 2}).block(7), Random({1, 2}).block(7));
  const std::set<Block> blocks = {Random({1, 2}).block(7),         Random({2, 1}).block(7),    Random({1}).block(7),
                                  Random({1, 2, 0}).block(7),      Random({0, 1, 2}).block(7), Random({1, 2}).block(8),
                                  Random({1, 2}).block(7ull << 32)};
  EXPECT_EQ(blocks.size(), 7u);
}

TEST(Random, StreamIsTheSequenceOfBlocks) {
  Random random({5});
  for (std::uint64_t i = 0; i < 3; ++i) {
    for (const std::uint32_t word : Random({5}).block(i)) EXPECT_EQ(random.next(), word);
  }
}

TEST(Random, UniformFillsTheUnitIntervalEvenly) {
  Random random({5});
  std::array<int, 10> counts{};
  for (int i = 0; i < 10'000; ++i) {
    const double x = random.uniform();
    ASSERT_GE(x, 0);
    ASSERT_LT(x, 1);
    ++counts[static_cast<std::size_t>(x * 10)];
  }
  for (const int count : counts) EXPECT_NEAR(count, 1000, 150);  // five standard deviations
}

TEST(Random, BelowReachesEveryNumberEvenly) {
  Random random({5});
  for (int i = 0; i < 10; ++i) EXPECT_EQ(random.below(1), 0u);
  std::array<int, 7> counts{};
  for (int i = 0; i < 7000; ++i) ++counts.at(random.below(7));
  for (const int count : counts) EXPECT_NEAR(count, 1000, 150);
}

// For n just over 2^63, taking the remainder of 64 bits would give the upper half less than half as often.
TEST(Random, BelowHasNoBiasForLargeRanges) {
  Random random({5});
  constexpr std::uint64_t n = (std::uint64_t{1} << 63) + (std::uint64_t{1} << 61);
  int upper = 0;
  for (int i = 0; i < 10'000; ++i) {
    const std::uint64_t x = random.below(n);
    ASSERT_LT(x, n);
    upper += x >= n / 2;
  }
  EXPECT_NEAR(upper, 5000, 250);
}

TEST(Random, WordOfANameIsFnv1a) {
  EXPECT_EQ(word_of(""), 0xcbf29ce484222325u);
  EXPECT_EQ(word_of("a"), 0xaf63dc4c8601ec8cu);
  EXPECT_EQ(word_of("foobar"), 0x85944171f73967e8u);
}

std::vector<std::uint64_t> whole_permutation(const Random& random, std::uint64_t n) {
  std::vector<std::uint64_t> order(n);
  for (std::uint64_t i = 0; i < n; ++i) order[i] = permuted(random, i, n);
  return order;
}

bool is_permutation_of_range(std::vector<std::uint64_t> order) {
  std::sort(order.begin(), order.end());
  for (std::uint64_t i = 0; i < order.size(); ++i) {
    if (order[i] != i) return false;
  }
  return true;
}

TEST(Permuted, IsAPermutation) {
  const Random random({9});
  for (std::uint64_t n = 1; n <= 100; ++n) EXPECT_TRUE(is_permutation_of_range(whole_permutation(random, n))) << n;
  EXPECT_TRUE(is_permutation_of_range(whole_permutation(random, 100'003)));
}

TEST(Permuted, StaysInRangeWithoutRepetitionForHugeSets) {
  const Random random({9});
  for (const std::uint64_t n : {std::uint64_t{1} << 40, std::numeric_limits<std::uint64_t>::max()}) {
    std::set<std::uint64_t> seen;
    for (std::uint64_t i = 0; i < 1000; ++i) {
      const std::uint64_t x = permuted(random, n - 1 - i, n);
      EXPECT_LT(x, n);
      seen.insert(x);
    }
    EXPECT_EQ(seen.size(), 1000u);
  }
}

TEST(Permuted, DependsOnTheKeyAndLooksShuffled) {
  const auto a = whole_permutation(Random({1}), 1000), b = whole_permutation(Random({2}), 1000);
  int agree = 0, in_place = 0, neighbours = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    agree += a[i] == b[i];
    in_place += a[i] == i;
    if (i > 0) neighbours += a[i] == a[i - 1] + 1;
  }
  EXPECT_LT(agree, 10);  // each is 1 on average for random permutations
  EXPECT_LT(in_place, 10);
  EXPECT_LT(neighbours, 10);
}

TEST(Permuted, PutsEveryElementEverywhere) {
  std::array<std::array<int, 5>, 5> counts{};
  for (std::uint64_t seed = 0; seed < 5000; ++seed) {
    const auto order = whole_permutation(Random({seed}), 5);
    for (std::size_t i = 0; i < 5; ++i) ++counts[i][order[i]];
  }
  for (const auto& row : counts) {
    for (const int count : row) EXPECT_NEAR(count, 1000, 150);
  }
}

}  // namespace
}  // namespace rookery
