#include "net/identity.h"

#include <filesystem>
#include <fstream>
#include <sys/stat.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "base/error.h"

namespace rookery::net {
namespace {

namespace fs = std::filesystem;

class IdentityTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) / ("identity_" + std::to_string(::getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path folder_;
};

TEST_F(IdentityTest, IsMadeOnceAndKeptForItsOwnerAlone) {
  const fs::path file = folder_ / "deep" / "key.pem";
  const Identity first = Identity::load_or_create(file);
  struct stat facts {};
  ASSERT_EQ(::stat(file.c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0600u);
  EXPECT_EQ(Identity::load_or_create(file).fingerprint(), first.fingerprint());
  EXPECT_NE(Identity::generate().fingerprint(), first.fingerprint());
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_ / "deep"), {}), 1);
}

TEST_F(IdentityTest, ComesAgainFromASeed) {
  EXPECT_EQ(Identity::from_seed(7).fingerprint(), Identity::from_seed(7).fingerprint());
  EXPECT_NE(Identity::from_seed(7).fingerprint(), Identity::from_seed(8).fingerprint());
  const auto text = std::as_bytes(std::span("a promise"));
  EXPECT_TRUE(is_signed_by(Identity::from_seed(7).public_key(), text, Identity::from_seed(7).sign(text)));
}

TEST_F(IdentityTest, RefusesKeysThatOthersCanReadOrThatAreNone) {
  const fs::path file = folder_ / "key.pem";
  Identity::load_or_create(file);
  ::chmod(file.c_str(), 0640);
  EXPECT_THROW(Identity::load_or_create(file), InputError);
  ::chmod(file.c_str(), 0600);
  std::ofstream(file) << "-----BEGIN PRIVATE KEY-----\nhello\n";
  EXPECT_THROW(Identity::load_or_create(file), InputError);
  EXPECT_THROW(Identity::load_or_create("/proc/none/key.pem"), InputError);
}

TEST_F(IdentityTest, SignaturesHoldForTheirBytesAndKeyOnly) {
  const Identity alice = Identity::generate(), bob = Identity::generate();
  const auto text = std::as_bytes(std::span("a promise")), other = std::as_bytes(std::span("a premise"));
  const auto signature = alice.sign(text);
  EXPECT_TRUE(is_signed_by(alice.public_key(), text, signature));
  EXPECT_FALSE(is_signed_by(alice.public_key(), other, signature));
  EXPECT_FALSE(is_signed_by(bob.public_key(), text, signature));
  EXPECT_FALSE(is_signed_by(alice.public_key(), text, {}));
  EXPECT_EQ(fingerprint_of(alice.public_key()), alice.fingerprint());
}

TEST_F(IdentityTest, FingerprintsSurviveAsText) {
  const Fingerprint key = Identity::generate().fingerprint();
  EXPECT_EQ(Fingerprint::parse(key.text()), key);
  EXPECT_EQ(key.shortened().size(), 8u);
  for (const char* bad : {"", "12", "zz"}) EXPECT_THROW(Fingerprint::parse(bad), InputError);
  EXPECT_THROW(Fingerprint::parse(std::string(64, 'g')), InputError);
}

}  // namespace
}  // namespace rookery::net
