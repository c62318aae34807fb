#include "tensor/kernels/embedding.h"

#include <gtest/gtest.h>

#include "tensor/kernels/internal/targets.h"
#include "tensor/kernels/internal/test_support.h"

namespace rookery::kernels {
namespace {

constexpr std::int64_t kVocabulary = 11, kPeriod = 5, kTokens = 23;

std::vector<std::int64_t> some_ids() {
  std::vector<std::int64_t> ids(kTokens);
  for (std::int64_t i = 0; i < kTokens; ++i) ids[i] = i * i % kVocabulary;
  return ids;
}

TEST(Embedding, adds_token_and_position) {
  const auto ids = some_ids();
  for (std::int64_t width : {1, 7, 8, 9, 100}) {
    const auto table = random_floats(kVocabulary * width, 1), positions = random_floats(kPeriod * width, 2);
    std::vector<float> both(kTokens * width), alone(kTokens * width);
    embedding_forward(kTokens, ids.data(), width, table.data(), positions.data(), kPeriod, both.data());
    embedding_forward(kTokens, ids.data(), width, table.data(), nullptr, 0, alone.data());
    for (std::int64_t i = 0; i < kTokens * width; ++i) {
      const std::int64_t token = i / width, j = i % width;
      EXPECT_EQ(alone[i], table[ids[token] * width + j]);
      EXPECT_EQ(both[i], alone[i] + positions[token % kPeriod * width + j]);
    }
  }
}

TEST(Embedding, backward_adds_in_the_order_of_the_tokens) {
  const auto ids = some_ids();
  for (std::int64_t width : {1, 7, 16, 100}) {
    const auto dout = random_floats(kTokens * width, 1);
    auto table = random_floats(kVocabulary * width, 2), positions = random_floats(kPeriod * width, 3);
    auto dtable = table, dpositions = positions;
    for (std::int64_t i = 0; i < kTokens * width; ++i) {
      table[ids[i / width] * width + i % width] += dout[i];
      positions[i / width % kPeriod * width + i % width] += dout[i];
    }
    embedding_backward(kTokens, ids.data(), width, dout.data(), dtable.data(), nullptr, kPeriod);
    embedding_backward(kTokens, ids.data(), width, dout.data(), nullptr, dpositions.data(), kPeriod);
    EXPECT_EQ(dtable, table);
    EXPECT_EQ(dpositions, positions);
  }
}

TEST(Embedding, threads_do_not_change_the_bits) {
  const std::int64_t n = 2000, width = 100;
  std::vector<std::int64_t> ids(n);
  for (std::int64_t i = 0; i < n; ++i) ids[i] = i * i % kVocabulary;
  const auto dout = random_floats(n * width, 1);
  same_with_any_threads([&] {
    std::vector<float> dtable(kVocabulary * width), dpositions(kPeriod * width);
    embedding_backward(n, ids.data(), width, dout.data(), dtable.data(), dpositions.data(), kPeriod);
    return std::pair(dtable, dpositions);
  });
}

}  // namespace
}  // namespace rookery::kernels
