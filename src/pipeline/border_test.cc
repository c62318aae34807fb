#include "pipeline/border.h"

#include <cmath>

#include <gtest/gtest.h>

#include "base/random.h"
#include "wire/frame.h"

namespace rookery::pipeline {
namespace {

using collective::Codec;

template <typename T>
BorderTensor tensor_of(TensorType type, std::vector<std::uint64_t> shape, std::vector<T> values) {
  const auto kept = std::make_shared<const std::vector<T>>(std::move(values));
  return {type, std::move(shape), std::as_bytes(std::span(*kept)), kept};
}

template <typename T>
std::vector<T> values_of(const BorderTensor& tensor) {
  const auto* first = reinterpret_cast<const T*>(tensor.bytes.data());
  return {first, first + tensor.bytes.size() / sizeof(T)};
}

Border example() {
  return {.micro_batch = 7,
          .tensors = {tensor_of<float>(TensorType::kFloat, {3, 2}, {1, -2.5, 3, 0, 1e-3f, 6}),
                      {},
                      tensor_of<std::int64_t>(TensorType::kInt64, {2}, {5, -100}),
                      tensor_of<float>(TensorType::kFloat, {0, 4}, {})},
          .squares = {1, 2}};
}

std::vector<std::byte> bytes_of(const BorderMessage& message) {
  std::vector<std::byte> bytes = message.header;
  for (const auto part : message.payload) bytes.insert(bytes.end(), part.begin(), part.end());
  EXPECT_EQ(bytes.size(), message.bytes());
  return bytes;
}

TEST(Border, ComesBackAsItWas) {
  const Border border = example(), back = from_message(bytes_of(to_message(border, Codec::kNone)));
  EXPECT_EQ(back.micro_batch, 7u);
  EXPECT_EQ(back.squares, border.squares);
  ASSERT_EQ(back.tensors.size(), border.tensors.size());
  for (std::size_t i = 0; i < border.tensors.size(); ++i) {
    EXPECT_EQ(back.tensors[i].type, border.tensors[i].type);
    EXPECT_EQ(back.tensors[i].shape, border.tensors[i].shape);
  }
  EXPECT_EQ(values_of<float>(back.tensors[0]), values_of<float>(border.tensors[0]));
  EXPECT_EQ(values_of<std::int64_t>(back.tensors[2]), (std::vector<std::int64_t>{5, -100}));
}

TEST(Border, LosesOnlyWhatTheCodecTakes) {
  const Border border = example();
  for (const Codec codec : {Codec::kBf16, Codec::kInt8}) {
    const Border back = from_message(bytes_of(to_message(border, codec)));
    const auto before = values_of<float>(border.tensors[0]), after = values_of<float>(back.tensors[0]);
    ASSERT_EQ(after.size(), before.size());
    for (std::size_t i = 0; i < before.size(); ++i) EXPECT_NEAR(after[i], before[i], 6.0 / 200);
    EXPECT_EQ(values_of<std::int64_t>(back.tensors[2]), values_of<std::int64_t>(border.tensors[2]));
  }
}

TEST(Border, RefusesWhatIsNotOne) {
  const auto whole = bytes_of(to_message(example(), Codec::kNone));
  for (std::size_t length = 0; length < whole.size(); ++length) {
    EXPECT_THROW(from_message({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length)}), wire::WireError);
  }
  auto longer = whole;
  longer.resize(whole.size() + wire::kBorderAlignment);
  EXPECT_THROW(from_message(longer), wire::WireError);
  Random random({2});
  for (int trial = 0; trial < 20'000; ++trial) {
    auto bytes = whole;
    bytes[random.below(bytes.size())] = static_cast<std::byte>(random.below(256));
    try {
      from_message(bytes);
    } catch (const wire::WireError&) {
      // As it should.
    }
  }
}

}  // namespace
}  // namespace rookery::pipeline
