#include "train/blueprint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"

namespace rookery::train {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class BlueprintTest : public testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::path(testing::TempDir()) / testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(root_);
  }
  void TearDown() override { fs::remove_all(root_); }

  void write(const std::string& name, const std::string& text) {
    fs::create_directories((root_ / name).parent_path());
    replace_file(root_ / name, text);
  }

  static std::vector<std::string> names(const config::Data& data) {
    std::vector<std::string> names;
    for (const DataFile& file : data_files(data)) names.push_back(file.name);
    return names;
  }

  fs::path root_;
};

TEST_F(BlueprintTest, DataThatIsGeneratedHasNoFiles) { EXPECT_THAT(names({.source = "tales"}), IsEmpty()); }

TEST_F(BlueprintTest, FilesKeepTheirNamesWhereverTheyLie) {
  write("books/a.txt", "a");
  write("books/more/b.txt", "b");
  write("books/.git/config", "hidden");
  write("books/more/.b.txt.swp", "hidden");
  write("words.model", "m");
  const config::Data folder{.source = (root_ / "books").string(),
                            .tokenizer = "sentencepiece:" + (root_ / "words.model").string()};
  EXPECT_THAT(names(folder), ElementsAre("source/a.txt", "source/more/b.txt", "tokenizer/words.model"));
  const config::Data file{.source = (root_ / "books" / "a.txt").string()};
  EXPECT_THAT(names(file), ElementsAre("source/a.txt"));

  for (const config::Data& data : {folder, file}) {
    const fs::path elsewhere = root_ / "elsewhere" / fs::path(data.source).filename();
    for (const DataFile& f : data_files(data)) {
      fs::create_directories((elsewhere / f.name).parent_path());
      fs::copy_file(f.path, elsewhere / f.name);
    }
    const config::Data moved = relocated(data, elsewhere);
    EXPECT_EQ(names(moved), names(data));
    EXPECT_TRUE(moved.source.starts_with(elsewhere.string())) << moved.source;
  }
}

TEST_F(BlueprintTest, ModelsOfAnotherShapeHaveAnotherFingerprint) {
  const auto print = [](const std::vector<std::string>& changes) {
    return fingerprint(*make_blueprint(config::load({}, changes)).model);
  };
  EXPECT_EQ(print({}), print({"train.lr=1"}));
  EXPECT_NE(print({}), print({"model.layers=2"}));
  EXPECT_NE(print({"model.width=64"}), print({"model.width=128"}));
}

TEST_F(BlueprintTest, MethodsThatKeepMoreNeedMoreMemory) {
  const auto needed = [](const std::string& method) {
    return keeping_of(config::load({}, std::vector<std::string>{"swarm.peers=4", "sync.method=" + method}), 4,
                      plan::Schedule::k1f1b)
        .method_values;
  };
  EXPECT_GT(needed("local-sgd"), needed("allreduce"));
  EXPECT_GT(needed("diloco"), needed("local-sgd"));
  EXPECT_EQ(needed("allreduce"), needed("gossip"));  // which keeps what is on its way, but no result for others
}

}  // namespace
}  // namespace rookery::train
