#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace rookery::data {

// A folder for the files of one test, removed with it.
class TestFolder {
 public:
  TestFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "rookery-data-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~TestFolder() { std::filesystem::remove_all(path_); }
  TestFolder(const TestFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

  std::filesystem::path write(const std::string& name, std::string_view content) const {
    const auto file = path_ / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << content;
    return file;
  }

 private:
  std::filesystem::path path_;
};

// Matches a call that throws InputError with all of `parts` in one line of message.
template <typename... Parts>
auto throws_input_error(Parts... parts) {
  return testing::ThrowsMessage<InputError>(
      testing::AllOf(testing::Not(testing::HasSubstr("\n")), testing::HasSubstr(parts)...));
}

}  // namespace rookery::data
