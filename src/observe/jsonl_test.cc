#include "observe/jsonl.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace rookery::observe {
namespace {

using testing::HasSubstr;

class JsonlTest : public testing::Test {
 protected:
  JsonlTest() {
    std::string pattern = std::filesystem::temp_directory_path() / "rookery-jsonl-XXXXXX";
    directory_ = ::mkdtemp(pattern.data());
    path_ = directory_ / "metrics.jsonl";
  }
  ~JsonlTest() override { std::filesystem::remove_all(directory_); }

  void write(std::string_view text) const { replace_file(path_, text); }
  std::string kept_after(std::string_view text, std::int64_t step) const {
    write(text);
    truncate_after(path_, step);
    return read_file(path_);
  }
  std::string refusal(std::string_view text, std::int64_t step) const {
    try {
      kept_after(text, step);
      return "accepted";
    } catch (const InputError& error) {
      return error.what();
    }
  }

  std::filesystem::path directory_, path_;
};

constexpr std::string_view kThreeLines = "{\"step\":1}\n{\"step\":2}\n{\"step\":3}\n";

TEST_F(JsonlTest, AppendsWholeLines) {
  {
    JsonlSink sink(path_);
    sink.step({.step = 1});
    EXPECT_THAT(read_file(path_), testing::EndsWith("}\n"));  // visible at once
    sink.finish({});
  }
  JsonlSink(path_).step({.step = 2});
  const std::string text = read_file(path_);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2);
  EXPECT_THAT(text, testing::StartsWith("{\"step\":1,"));
  EXPECT_THAT(text, HasSubstr("\n{\"step\":2,"));
}

TEST_F(JsonlTest, FullDiskIsAnErrorThatNamesTheFile) {
  JsonlSink sink("/dev/full");
  try {
    sink.step({.step = 1});
    FAIL() << "accepted";
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(), "/dev/full: cannot write: No space left on device");
  }
}

TEST_F(JsonlTest, TruncateCutsLaterSteps) {
  EXPECT_EQ(kept_after(kThreeLines, 2), "{\"step\":1}\n{\"step\":2}\n");
  EXPECT_EQ(kept_after(kThreeLines, 0), "");
  EXPECT_EQ(kept_after(kThreeLines, 3), kThreeLines);
  EXPECT_EQ(kept_after(kThreeLines, 99), kThreeLines);
  EXPECT_EQ(kept_after("", 5), "");
}

TEST_F(JsonlTest, TruncateCutsATornLastLine) {
  EXPECT_EQ(kept_after("{\"step\":1}\n{\"st", 9), "{\"step\":1}\n");
  EXPECT_EQ(kept_after("{\"step\":1}\n{\"step\":2}", 9), "{\"step\":1}\n");
  EXPECT_EQ(kept_after("{", 9), "");
}

TEST_F(JsonlTest, TruncateRefusesWhatIsNotMetrics) {
  const std::string form = ": is not a line of metrics (a JSON object with a whole number as \"step\")";
  EXPECT_EQ(refusal("{\"step\":1}\ngarbage\n{\"step\":3}\n", 3), path_.string() + ":2" + form);
  for (const char* line : {"\n", "3\n", "[]\n", "{}\n", "{\"step\":\"1\"}\n", "{\"step\":1.5}\n", "{\"step\":1}}\n"}) {
    EXPECT_EQ(refusal(line, 3), path_.string() + ":1" + form) << line;
    EXPECT_EQ(read_file(path_), line);
  }
  EXPECT_EQ(refusal("{\"step\":1}\n{\"step\":2}\ngarbage\n", 1), "accepted");  // it is cut off
}

TEST_F(JsonlTest, TruncateTakesAMissingFileForAnEmptyOne) {
  truncate_after(path_, 3);
  EXPECT_FALSE(std::filesystem::exists(path_));
}

}  // namespace
}  // namespace rookery::observe
