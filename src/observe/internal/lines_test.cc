#include "observe/internal/lines.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"

namespace rookery::observe::internal {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class LinesTest : public testing::Test {
 protected:
  LinesTest() {
    std::string pattern = std::filesystem::temp_directory_path() / "rookery-lines-XXXXXX";
    directory_ = ::mkdtemp(pattern.data());
    path_ = directory_ / "file";
  }
  ~LinesTest() override { std::filesystem::remove_all(directory_); }

  std::vector<std::string> lines_of(const std::string& text) const {
    replace_file(path_, text);
    std::vector<std::string> lines;
    for_each_line(path_, [&](std::string_view line, std::int64_t number) {
      lines.emplace_back(line);
      EXPECT_EQ(number, static_cast<std::int64_t>(lines.size()));
    });
    return lines;
  }

  static std::string refusal(const std::filesystem::path& path) {
    try {
      for_each_line(path, [](std::string_view, std::int64_t) {});
      return "accepted";
    } catch (const InputError& error) {
      return error.what();
    }
  }

  std::filesystem::path directory_, path_;
};

TEST_F(LinesTest, GivesWholeLines) {
  EXPECT_THAT(lines_of(""), IsEmpty());
  EXPECT_THAT(lines_of("a\n\nb\n"), ElementsAre("a", "", "b"));
  EXPECT_THAT(lines_of("a\ntorn"), ElementsAre("a"));
  EXPECT_THAT(lines_of("torn"), IsEmpty());
}

TEST_F(LinesTest, LinesMayLieAcrossPieces) {
  for (const std::size_t size : {65534, 65535, 65536, 65537, 200000, 1 << 20}) {
    const std::string long_line(size, 'x');
    EXPECT_EQ(lines_of("a\n" + long_line + "\nb\n"), (std::vector<std::string>{"a", long_line, "b"})) << size;
  }
}

TEST_F(LinesTest, NamesWhatItCannotRead) {
  EXPECT_EQ(refusal(path_), path_.string() + ": there is no such file");
  EXPECT_EQ(refusal(directory_), directory_.string() + ": is not a regular file");
  EXPECT_EQ(refusal("/dev/zero"), "/dev/zero: is not a regular file");
  replace_file(path_, "short\n" + std::string((1 << 20) + 1, 'x'));
  EXPECT_EQ(refusal(path_), path_.string() + ":2: is longer than 1 MiB; this is no file of a run");
}

}  // namespace
}  // namespace rookery::observe::internal
