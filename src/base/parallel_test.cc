#include "base/parallel.h"

#include <atomic>
#include <vector>

#include <gtest/gtest.h>

#include "base/error.h"

namespace rookery {
namespace {

TEST(ForAllTest, EachIsDoneOnce) {
  for (const std::size_t count : {0, 1, 2, 1000}) {
    std::vector<std::atomic<int>> done(count);
    for_all(count, [&](std::size_t i) { ++done[i]; });
    for (const auto& times : done) EXPECT_EQ(times, 1);
  }
}

TEST(ForAllTest, TheFirstFailureIsThrownAfterAllAreDone) {
  std::atomic<int> done = 0;
  try {
    for_all(100, [&](std::size_t i) {
      ++done;
      if (i % 10 == 7) throw Error("{}", i);
    });
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "7");
  }
  EXPECT_EQ(done, 100);
}

}  // namespace
}  // namespace rookery
