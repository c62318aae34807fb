#include "train/own_key.h"

#include <filesystem>
#include <fstream>
#include <optional>

#include <gtest/gtest.h>

namespace rookery::train {
namespace {

struct OwnKeyTest : ::testing::Test {
  OwnKeyTest() { std::filesystem::remove_all(folder_); }
  ~OwnKeyTest() override { std::filesystem::remove_all(folder_); }

  const std::filesystem::path folder_ =
      std::filesystem::path(::testing::TempDir()) / ::testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(OwnKeyTest, WhoBeginsAnewHasTheSameKeyAndTwoAtOnceDoNot) {
  std::optional<OwnKey> first(std::in_place, folder_, "attic");
  const net::Fingerprint key = first->identity().fingerprint();
  EXPECT_NE(OwnKey(folder_, "attic").identity().fingerprint(), key);
  EXPECT_NE(OwnKey(folder_, "barn").identity().fingerprint(), key);
  first.reset();
  EXPECT_EQ(OwnKey(folder_, "attic").identity().fingerprint(), key);
}

TEST_F(OwnKeyTest, AKeyThatCannotBeReadHindersNobody) {
  std::filesystem::create_directories(folder_);
  std::ofstream(folder_ / "attic.pem") << "no key";
  EXPECT_NE(OwnKey(folder_, "attic").identity().fingerprint(), OwnKey(folder_, "attic").identity().fingerprint());
}

}  // namespace
}  // namespace rookery::train
