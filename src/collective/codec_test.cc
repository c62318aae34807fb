#include "collective/codec.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/random.h"

namespace rookery::collective {
namespace {

const std::vector<std::size_t> kSizes = {0, 1, 3, 7, 8, 15, 17, 1023, 1024, 1025, 5000};

std::vector<float> random_floats(std::size_t size, std::uint64_t seed) {
  Random random({seed});
  std::vector<float> values(size);
  for (float& v : values) v = static_cast<float>((random.uniform() - 0.5) * std::exp(10 * random.uniform()));
  return values;
}

// Rounds like the definition says, bit by bit.
float bf16_reference(float value) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, 4);
  const std::uint32_t rest = bits & 0xffff;
  bits &= 0xffff0000;
  if (rest > 0x8000 || (rest == 0x8000 && (bits & 0x10000) != 0)) bits += 0x10000;
  std::memcpy(&value, &bits, 4);
  return value;
}

class CodecTest : public testing::TestWithParam<Codec> {};

TEST_P(CodecTest, KeepsWhatTheOthersDecodeAndSaysWhatIsLost) {
  for (const std::size_t size : kSizes) {
    const std::vector<float> original = random_floats(size, size);
    std::vector<float> kept = original, lost(size, 99), decoded(size), lost_too(size);
    std::vector<std::byte> bytes(encoded_bytes(GetParam(), size)), again(bytes.size());
    EXPECT_EQ(decoded_values(GetParam(), bytes.size()), size);
    encode_and_keep(GetParam(), kept, bytes, lost);
    decode(GetParam(), bytes, decoded);
    EXPECT_EQ(kept, decoded);
    for (std::size_t i = 0; i < size; ++i) EXPECT_FLOAT_EQ(decoded[i] + lost[i], original[i]);
    encode(GetParam(), original, again, lost_too);
    EXPECT_EQ(again, bytes);
    EXPECT_EQ(lost_too, lost);
    encode(GetParam(), original, again, {});
    EXPECT_EQ(again, bytes);
  }
}

TEST_P(CodecTest, AddsToWeightedValuesFromAnyAddress) {
  for (const std::size_t size : kSizes) {
    const std::vector<float> incoming = random_floats(size, 1), own = random_floats(size, 2);
    std::vector<float> decoded(size), sum = own;
    std::vector<std::byte> bytes(encoded_bytes(GetParam(), size) + 1);
    const auto unaligned = std::span(bytes).subspan(1);
    encode(GetParam(), incoming, unaligned, {});
    decode(GetParam(), unaligned, decoded);
    decode_add(GetParam(), unaligned, 0.5f, sum);
    for (std::size_t i = 0; i < size; ++i) EXPECT_FLOAT_EQ(sum[i], std::fma(0.5f, own[i], decoded[i])) << i;
  }
}

// A message may be cut at any grain; each part is decoded alone.
TEST_P(CodecTest, PartsDecodeAsTheWholeDoes) {
  const std::size_t size = 5000, values = values_per_grain(GetParam()), step = grain(GetParam());
  std::vector<float> whole(size), parts(size);
  std::vector<std::byte> bytes(encoded_bytes(GetParam(), size));
  encode(GetParam(), random_floats(size, 3), bytes, {});
  decode(GetParam(), bytes, whole);
  const std::size_t cut_values = 3 * values, cut_bytes = 3 * step;
  decode(GetParam(), std::span(bytes).first(cut_bytes), std::span(parts).first(cut_values));
  decode(GetParam(), std::span(bytes).subspan(cut_bytes), std::span(parts).subspan(cut_values));
  EXPECT_EQ(parts, whole);
  EXPECT_EQ(decoded_values(GetParam(), cut_bytes), cut_values);
}

TEST_P(CodecTest, WhatIsNotFiniteStaysSo) {
  for (const float bad : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                          std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::signaling_NaN()}) {
    std::vector<float> values(1024, 1.0f), decoded(1024);
    values[700] = bad;
    std::vector<std::byte> bytes(encoded_bytes(GetParam(), values.size()));
    encode(GetParam(), values, bytes, {});
    decode(GetParam(), bytes, decoded);
    EXPECT_FALSE(std::isfinite(decoded[700]));
  }
}

INSTANTIATE_TEST_SUITE_P(All, CodecTest, testing::Values(Codec::kNone, Codec::kBf16, Codec::kInt8),
                         [](const auto& i) { return std::string(name_of(i.param)); });

TEST(Bf16Test, RoundsToNearestEven) {
  std::vector<float> values = random_floats(4096, 5);
  for (const float v : {1.0f, 1.00390625f, 1.01171875f, -1.00390625f, 3.0e38f, 1e-40f, 0.0f, -0.0f})
    values.push_back(v);
  std::vector<float> decoded(values.size());
  std::vector<std::byte> bytes(encoded_bytes(Codec::kBf16, values.size()));
  encode(Codec::kBf16, values, bytes, {});
  decode(Codec::kBf16, bytes, decoded);
  for (std::size_t i = 0; i < values.size(); ++i) EXPECT_EQ(decoded[i], bf16_reference(values[i])) << values[i];
}

TEST(Int8Test, IsOffByHalfAUnitAtMostAndKeepsTheLargest) {
  const std::vector<float> values = random_floats(5000, 6);
  std::vector<float> decoded(values.size());
  std::vector<std::byte> bytes(encoded_bytes(Codec::kInt8, values.size()));
  encode(Codec::kInt8, values, bytes, {});
  decode(Codec::kInt8, bytes, decoded);
  for (std::size_t begin = 0; begin < values.size(); begin += kInt8Block) {
    const std::size_t end = std::min(begin + kInt8Block, values.size());
    float most = 0;
    for (std::size_t i = begin; i < end; ++i) most = std::max(most, std::abs(values[i]));
    for (std::size_t i = begin; i < end; ++i) EXPECT_LE(std::abs(values[i] - decoded[i]), most / 254 * 1.0001f) << i;
  }
}

TEST(Int8Test, TinyAndZeroBlocksBecomeZero) {
  std::vector<float> values(2000, 1e-42f), decoded(2000, 5);
  std::vector<std::byte> bytes(encoded_bytes(Codec::kInt8, values.size()));
  encode(Codec::kInt8, values, bytes, {});
  decode(Codec::kInt8, bytes, decoded);
  for (const float v : decoded) EXPECT_LE(std::abs(v), 1e-41f);
}

TEST(CopyPastCacheTest, CopiesFromAndToAnyAddress) {
  for (std::size_t skew = 0; skew < 9; ++skew) {
    for (const std::size_t size : {0, 1, 7, 8, 9, 40, 1000}) {
      std::vector<float> from(size), to(size + skew + 1, -1.0f);
      std::iota(from.begin(), from.end(), 1.0f);
      std::vector<std::byte> bytes(4 * size + 1);
      if (size > 0) std::memcpy(bytes.data() + 1, from.data(), 4 * size);
      copy_past_cache(std::span(bytes).subspan(1), std::span(to).subspan(skew, size));
      EXPECT_TRUE(std::ranges::equal(std::span(to).subspan(skew, size), from)) << size << " at " << skew;
      EXPECT_EQ(std::ranges::count(to, -1.0f), static_cast<std::ptrdiff_t>(skew + 1)) << "nothing else is touched";
    }
  }
}

TEST(CodecNameTest, UnknownNamesAreRefused) {
  EXPECT_EQ(parse_codec("int8"), Codec::kInt8);
  EXPECT_THROW(parse_codec("int7"), InputError);
}

}  // namespace
}  // namespace rookery::collective
