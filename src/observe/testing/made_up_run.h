#pragma once

#include <filesystem>
#include <string>

#include <gtest/gtest.h>

namespace rookery::observe {

// A folder for tests, in which runs are made up as text. Gone with the test.
class MadeUpRuns : public testing::Test {
 protected:
  MadeUpRuns();
  ~MadeUpRuns() override;

  // Writes a file of a run; folders are made on the way.
  void write(const std::string& run, const std::string& file, const std::string& text) const;

  // Steps [first, last] of a swarm, each half a second long: loss 1/step, 16 samples and 1000 tokens.
  static std::string steps(int first, int last);

  std::filesystem::path folder_;
};

}  // namespace rookery::observe
