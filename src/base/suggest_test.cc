#include "base/suggest.h"

#include <vector>

#include <gtest/gtest.h>

namespace rookery {
namespace {

const std::vector<std::string> kKnown = {"width", "heads", "context", "lr"};

TEST(DidYouMean, NamesTheNearest) {
  EXPECT_EQ(did_you_mean("widht", kKnown), "; did you mean 'width'?");     // swapped
  EXPECT_EQ(did_you_mean("contxt", kKnown), "; did you mean 'context'?");  // left out
  EXPECT_EQ(did_you_mean("headss", kKnown), "; did you mean 'heads'?");    // added
  EXPECT_EQ(did_you_mean("hoads", kKnown), "; did you mean 'heads'?");     // replaced
}

TEST(DidYouMean, KeepsSilentWhenNothingIsNear) {
  EXPECT_EQ(did_you_mean("batch", kKnown), "");
  EXPECT_EQ(did_you_mean("width", {}), "");
  EXPECT_EQ(did_you_mean("zzzz", kKnown), "");
}

// Two mistakes in two letters are no resemblance: everything short would be "near".
TEST(DidYouMean, AsksMoreOfShortNames) {
  EXPECT_EQ(did_you_mean("lt", kKnown), "; did you mean 'lr'?");
  EXPECT_EQ(did_you_mean("rl", kKnown), "; did you mean 'lr'?");  // swapping is one mistake
  EXPECT_EQ(did_you_mean("xy", kKnown), "");
}

TEST(DidYouMean, TakesAnythingThatIsWritten) {
  EXPECT_EQ(did_you_mean("", kKnown), "");
  EXPECT_EQ(did_you_mean(std::string(1000, 'x'), kKnown), "");
}

}  // namespace
}  // namespace rookery
