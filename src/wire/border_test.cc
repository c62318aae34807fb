#include "wire/border.h"

#include <limits>

#include <gtest/gtest.h>

#include "base/random.h"
#include "wire/frame.h"

namespace rookery::wire {
namespace {

BorderHeader example() {
  return {.micro_batch = 1234567890123,
          .tensors = {{TensorType::kFloat, 2, {4, 64, 128}}, {TensorType::kInt64, 0, {4}}, {}},
          .squares = {0.5, 0, 3e30}};
}

TEST(BorderHeader, ComesBackAsItWas) {
  for (const BorderHeader& header : {BorderHeader{}, example()}) {
    auto bytes = encode(header);
    EXPECT_EQ(bytes.size() % kBorderAlignment, 0u);
    const std::size_t written = bytes.size();
    bytes.resize(written + 100);  // tensors follow
    std::size_t size = 0;
    EXPECT_EQ(decode_border_header(bytes, size), header);
    EXPECT_EQ(size, written);
  }
}

TEST(BorderHeader, KnowsHowManyElementsATensorHas) {
  EXPECT_EQ(example().tensors[0].elements(), 4u * 64 * 128);
  EXPECT_EQ(example().tensors[2].elements(), 0u);
  EXPECT_EQ((TensorFacts{TensorType::kFloat, 0, {}}).elements(), 1u);
  EXPECT_EQ((TensorFacts{TensorType::kFloat, 0, {3, 0}}).elements(), 0u);
}

TEST(BorderHeader, RefusesWhatIsBeyondItsLimits) {
  const auto refuses = [](const BorderHeader& header) {
    std::size_t size = 0;
    EXPECT_THROW(decode_border_header(encode(header), size), WireError);
  };
  refuses({.tensors = std::vector<TensorFacts>(kMaxBorderTensors + 1)});
  refuses({.squares = std::vector<double>(kMaxStages + 1)});
  refuses({.tensors = {{TensorType::kFloat, 0, std::vector<std::uint64_t>(kMaxDimensions + 1, 1)}}});
  refuses({.tensors = {{TensorType::kFloat, 0, {kMaxElements, 2}}}});
  refuses({.tensors = {{TensorType::kFloat, 0, {std::numeric_limits<std::uint64_t>::max()}}}});
  refuses({.tensors = {{static_cast<TensorType>(3), 0, {1}}}});
  refuses({.squares = {-1}});
}

TEST(BorderHeader, RefusesEveryPartOfItself) {
  const auto bytes = encode(example());
  std::size_t size = 0;
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_THROW(decode_border_header(std::span(bytes).first(length), size), WireError);
  }
}

TEST(BorderHeader, SurvivesAnyBytes) {
  Random random({5});
  const auto whole = encode(example());
  for (int trial = 0; trial < 20'000; ++trial) {
    auto bytes = whole;
    for (std::uint64_t i = random.below(6) + 1; i > 0; --i) {
      bytes[random.below(bytes.size())] = static_cast<std::byte>(random.below(256));
    }
    std::size_t size = 0;
    try {
      const BorderHeader header = decode_border_header(bytes, size);
      EXPECT_LE(size, bytes.size());
      EXPECT_LE(header.tensors.size(), kMaxBorderTensors);
    } catch (const WireError&) {
      // As it should.
    }
  }
}

}  // namespace
}  // namespace rookery::wire
