#include "data/token_dataset.h"

#include <cmath>

#include <gtest/gtest.h>

#include "base/random.h"

namespace rookery::data {
namespace {

TEST(MaskTokensTest, FollowsBert) {
  constexpr std::int64_t kVocabulary = 1000, kTokens = 100000;
  std::vector<std::int64_t> original(kTokens), targets(kTokens);
  for (std::int64_t i = 0; i < kTokens; ++i) original[i] = i % kVocabulary;
  auto tokens = original;
  Random random({1});

  const std::int64_t chosen = mask_tokens(random, 0.15, kVocabulary, tokens, targets);

  std::int64_t counted = 0, masked = 0, kept = 0;
  for (std::int64_t i = 0; i < kTokens; ++i) {
    if (targets[i] == kIgnoredTarget) {
      EXPECT_EQ(tokens[i], original[i]);
      continue;
    }
    ++counted;
    EXPECT_EQ(targets[i], original[i]);
    masked += tokens[i] == kVocabulary;
    kept += tokens[i] == original[i];
    EXPECT_LE(tokens[i], kVocabulary);
  }
  EXPECT_EQ(counted, chosen);
  EXPECT_NEAR(chosen / double{kTokens}, 0.15, 0.01);
  EXPECT_NEAR(masked / double(chosen), 0.8, 0.02);
  EXPECT_NEAR(kept / double(chosen), 0.1, 0.02);
}

TEST(MaskTokensTest, ChoosesAtLeastOne) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    std::vector<std::int64_t> tokens = {1, 2, 3}, targets(3);
    Random random({seed});
    EXPECT_GE(mask_tokens(random, 1e-9, 10, tokens, targets), 1);
  }
}

}  // namespace
}  // namespace rookery::data
