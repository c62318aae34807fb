#include "base/file.h"

#include <optional>
#include <sys/stat.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace rookery {
namespace {

using testing::HasSubstr;

class FileTest : public testing::Test {
 protected:
  FileTest() {
    std::string pattern = std::filesystem::temp_directory_path() / "rookery-file-XXXXXX";
    directory_ = ::mkdtemp(pattern.data());
    path_ = directory_ / "file";
  }
  ~FileTest() override { std::filesystem::remove_all(directory_); }

  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(directory_)) names.push_back(entry.path().filename());
    return names;
  }

  std::filesystem::path directory_, path_;
};

template <typename Action>
std::string refusal(Action action) {
  try {
    action();
    return "accepted";
  } catch (const InputError& error) {
    return error.what();
  }
}

TEST_F(FileTest, WriterReplacesOrAppends) {
  for (const char* text : {"one", "two"}) {
    FileWriter file(path_);
    file.write(std::string_view(text));
    file.finish();
  }
  EXPECT_EQ(read_file(path_), "two");
  FileWriter file(path_, FileWriter::Mode::kAppend);
  file.write(std::string_view(", three"));
  EXPECT_EQ(read_file(path_), "two, three");
}

TEST_F(FileTest, WriterReportsAFullDisk) {
  FileWriter file("/dev/full");
  EXPECT_EQ(refusal([&] { file.write(std::string_view("x")); }), "/dev/full: cannot write: No space left on device");
}

TEST_F(FileTest, WriterReportsAPathThatCannotBe) {
  EXPECT_THAT(refusal([&] { FileWriter file(directory_ / "none" / "file"); }),
              HasSubstr("none/file: cannot write: No"));
  EXPECT_THAT(refusal([&] { FileWriter file(directory_); }), HasSubstr("Is a directory"));
}

TEST_F(FileTest, WriterFinishesOnWhatCannotBeWrittenThrough) {
  FileWriter file("/dev/null");
  file.write(std::string_view("x"));
  EXPECT_EQ(refusal([&] { file.finish(); }), "accepted");
}

TEST_F(FileTest, ReadReportsWhatIsMissingTooLargeOrNoFile) {
  EXPECT_THAT(refusal([&] { read_file(path_); }), HasSubstr("file: cannot open: No such file"));
  EXPECT_THAT(refusal([&] { read_file(directory_); }), HasSubstr("is not a regular file"));
  replace_file(path_, "12345");
  EXPECT_EQ(read_file(path_, 5), "12345");
  EXPECT_THAT(refusal([&] { read_file(path_, 4); }), HasSubstr("is larger than 4 B"));
}

TEST_F(FileTest, MappedFileShowsTheContent) {
  replace_file(path_, "abc");
  MappedFile file(path_);
  const MappedFile moved(std::move(file));
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(moved.bytes().data()), moved.bytes().size()), "abc");
  EXPECT_EQ(moved.path(), path_);
  replace_file(path_, "");
  EXPECT_TRUE(MappedFile(path_).bytes().empty());
  EXPECT_THAT(refusal([&] { MappedFile missing(directory_ / "none"); }), HasSubstr("none: cannot open"));
}

TEST_F(FileTest, ReplaceLeavesNothingElseBehind) {
  replace_file(path_, "old");
  replace_file(path_, "new");
  EXPECT_EQ(read_file(path_), "new");
  EXPECT_THAT(names(), testing::ElementsAre("file"));
}

// The temporary file is a link to a device that is always full.
TEST_F(FileTest, ReplaceKeepsTheOldContentWhenTheDiskIsFull) {
  replace_file(path_, "old");
  std::filesystem::create_symlink("/dev/full", directory_ / "file.tmp");
  EXPECT_THAT(refusal([&] { replace_file(path_, "new"); }), HasSubstr("No space left on device"));
  EXPECT_EQ(read_file(path_), "old");
  EXPECT_THAT(names(), testing::ElementsAre("file"));
}

TEST_F(FileTest, ReplaceCleansUpWhenItCannotTakeThePlace) {
  std::filesystem::create_directories(path_ / "occupied");
  EXPECT_THAT(refusal([&] { replace_file(path_, "new"); }), HasSubstr("file: cannot replace: "));
  EXPECT_THAT(names(), testing::ElementsAre("file"));
}

TEST_F(FileTest, DigestOfAFileIsThatOfItsContent) {
  const std::string content((1 << 20) + 17, 'x');  // more than one piece
  replace_file(path_, content);
  EXPECT_EQ(digest_of_file(path_), digest(std::as_bytes(std::span(content))));
}

TEST(Digest, IsSha256) {
  const std::string_view text = "abc";
  EXPECT_EQ(digest(std::as_bytes(std::span(text))), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(digest({}), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST_F(FileTest, OneAfterAnotherHoldsALock) {
  const std::filesystem::path path = directory_ / "lock";
  std::optional<FileLock> first(std::in_place, path, std::chrono::milliseconds(0));
  EXPECT_TRUE(first->is_held());
  EXPECT_FALSE(FileLock(path, std::chrono::milliseconds(20)).is_held());
  first.reset();
  EXPECT_TRUE(FileLock(path, std::chrono::milliseconds(0)).is_held());
  EXPECT_FALSE(FileLock(directory_ / "nowhere" / "lock", std::chrono::milliseconds(0)).is_held());
}

}  // namespace
}  // namespace rookery
