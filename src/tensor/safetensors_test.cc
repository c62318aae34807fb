#include "tensor/safetensors.h"

#include <fstream>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace rookery {
namespace {

class SafetensorsTest : public testing::Test {
 protected:
  std::filesystem::path path_ =
      std::filesystem::path(testing::TempDir()) /
      (std::string("safetensors_") + testing::UnitTest::GetInstance()->current_test_info()->name());

  // A file with this header and `data` bytes after it. The length is the header's own unless given.
  void write_raw(const std::string& header, std::size_t data, std::optional<std::uint64_t> length = {}) {
    const std::uint64_t n = length.value_or(header.size());
    std::ofstream file(path_, std::ios::binary);
    file.write(reinterpret_cast<const char*>(&n), sizeof n);
    file << header << std::string(data, 'x');
  }

  std::string error_of_opening() {
    try {
      const SafetensorsFile file(path_);
    } catch (const InputError& e) {
      return e.what();
    }
    return "";
  }
};

TEST_F(SafetensorsTest, GivesBackWhatWasWritten) {
  const at::Tensor a = at::randn({3, 5}), b = at::arange(4, at::kLong), empty = at::zeros({0, 2});
  const std::vector<NamedTensor> tensors = {{"a", a}, {"b", b}, {"empty", empty}, {"scalar", at::scalar_tensor(2.5)}};
  write_safetensors(path_, tensors, {{"key", "value"}});
  const SafetensorsFile file(path_);
  EXPECT_EQ(file.entries().size(), 4u);
  EXPECT_EQ(file.metadata().at("key"), "value");
  const at::Tensor a2 = at::empty({3, 5}), b2 = at::empty({4}, at::kLong), s2 = at::empty({});
  file.read_into("a", a2);
  file.read_into("b", b2);
  file.read_into("scalar", s2);
  EXPECT_TRUE(at::equal(a, a2) && at::equal(b, b2));
  EXPECT_EQ(s2.item<float>(), 2.5f);
}

TEST_F(SafetensorsTest, RefusesAnotherShapeOrType) {
  const std::vector<NamedTensor> tensors = {{"a", at::zeros({2, 3})}};
  write_safetensors(path_, tensors);
  const SafetensorsFile file(path_);
  EXPECT_THROW(file.read_into("a", at::zeros({3, 2})), InputError);
  EXPECT_THROW(file.read_into("a", at::zeros({2, 3}, at::kLong)), InputError);
  EXPECT_THROW(file.read_into("b", at::zeros({2, 3})), InputError);
}

constexpr const char* kGood = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";

TEST_F(SafetensorsTest, AcceptsTheGoodHeaderThatTheOthersVary) {
  write_raw(kGood, 8);
  EXPECT_EQ(error_of_opening(), "");
}

TEST_F(SafetensorsTest, RefusesWhatTheHeaderLiesAbout) {
  using testing::HasSubstr;
  write_raw(kGood, 8, 1u << 30);
  EXPECT_THAT(error_of_opening(), HasSubstr("header claims"));
  write_raw(kGood, 8, ~std::uint64_t{0});
  EXPECT_THAT(error_of_opening(), HasSubstr("header claims"));
  write_raw("not json", 0);
  EXPECT_THAT(error_of_opening(), HasSubstr("not valid JSON"));
  write_raw(kGood, 7);
  EXPECT_THAT(error_of_opening(), HasSubstr("the tensors take 8 bytes"));
  write_raw(R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", 8);
  EXPECT_THAT(error_of_opening(), HasSubstr("shape that does not fit"));
  write_raw(R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}})", 0);
  EXPECT_THAT(error_of_opening(), HasSubstr("shape that does not fit"));
  write_raw(R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", 8);
  EXPECT_THAT(error_of_opening(), HasSubstr("shape that does not fit"));
  write_raw(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", 8);
  EXPECT_THAT(error_of_opening(), HasSubstr("shape that does not fit"));
  write_raw(R"({"a":{"dtype":"C64","shape":[1],"data_offsets":[0,8]}})", 8);
  EXPECT_THAT(error_of_opening(), HasSubstr("unsupported type C64"));
  write_raw(R"({"a":{"dtype":"F32","shape":[2]}})", 8);
  EXPECT_THAT(error_of_opening(), HasSubstr("malformed"));
  std::ofstream(path_) << "abc";
  EXPECT_THAT(error_of_opening(), HasSubstr("too short"));
}

TEST_F(SafetensorsTest, RefusesOverlapsAndGaps) {
  write_raw(
      R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})",
      12);
  EXPECT_THAT(error_of_opening(), testing::HasSubstr("tensor 'b' overlaps"));
  write_raw(
      R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[1],"data_offsets":[12,16]}})",
      16);
  EXPECT_THAT(error_of_opening(), testing::HasSubstr("leaves a gap"));
}

TEST_F(SafetensorsTest, AFullDiskIsAnErrorThatNamesTheFile) {
  const std::vector<NamedTensor> tensors = {{"a", at::zeros({1000})}};
  try {
    write_safetensors("/dev/full", tensors);
    FAIL() << "should have thrown";
  } catch (const InputError& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr("/dev/full"));
  }
}

}  // namespace
}  // namespace rookery
