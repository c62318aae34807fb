#include "plan/segments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/random.h"

namespace rookery::plan {
namespace {

using testing::HasSubstr;

std::string refusal(const Cut& cut, std::size_t layers) {
  try {
    check_cut(cut, layers, "pipeline.stages");
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(Segments, AreTheCommonRefinementOfAllCuts) {
  const std::vector<Cut> clusters = {{{0, 3}, {3, 10}}, {{0, 10}}, {{0, 2}, {2, 3}, {3, 7}, {7, 10}}};
  const std::vector<Segment> expected = {
      {{0, 2}, {0, 0, 0}}, {{2, 3}, {0, 0, 1}}, {{3, 7}, {1, 0, 2}}, {{7, 10}, {1, 0, 3}}};
  EXPECT_EQ(segments(clusters, 10), expected);
}

TEST(Segments, OfClustersOfOneAreTheWholeModel) {
  const std::vector<Cut> clusters(3, Cut{{0, 5}});
  EXPECT_EQ(segments(clusters, 5), (std::vector<Segment>{{{0, 5}, {0, 0, 0}}}));
}

// A cut of random places.
Cut random_cut(Random& random, std::size_t layers) {
  Cut cut;
  for (std::size_t begin = 0; begin < layers;) {
    const std::size_t end = begin + 1 + random.below(layers - begin);
    cut.push_back({begin, end});
    begin = end;
  }
  return cut;
}

TEST(Segments, HaveOneHolderInEveryClusterAndCoverEveryLayerOnce) {
  Random random({7});
  for (int trial = 0; trial < 200; ++trial) {
    const std::size_t layers = 1 + random.below(20);
    std::vector<Cut> clusters(1 + random.below(5));
    for (Cut& cut : clusters) cut = random_cut(random, layers);
    std::size_t covered = 0;
    for (const Segment& segment : segments(clusters, layers)) {
      EXPECT_EQ(segment.layers.begin, covered);
      covered = segment.layers.end;
      ASSERT_EQ(segment.stages.size(), clusters.size());
      for (std::size_t c = 0; c < clusters.size(); ++c) {
        const Layers& stage = clusters[c].at(segment.stages[c]);
        EXPECT_LE(stage.begin, segment.layers.begin);
        EXPECT_GE(stage.end, segment.layers.end);
      }
    }
    EXPECT_EQ(covered, layers);
  }
}

TEST(Segments, NeedCutsThatCoverTheModel) {
  EXPECT_EQ(refusal({{0, 2}, {2, 4}}, 4), "");
  EXPECT_EQ(refusal({{0, 1}, {1, 2}, {2, 3}}, 2), "pipeline.stages has 3 stages, but the model has only 2 layers");
  EXPECT_EQ(refusal({{0, 2}, {2, 9}}, 4), "pipeline.stages ends at layer 9, but the model has only 4 layers");
  EXPECT_EQ(refusal({{0, 2}}, 4),
            "pipeline.stages ends at layer 2, but the model has 4 layers: nobody would hold the others");
  EXPECT_THAT(refusal({{0, 2}, {3, 4}}, 4), HasSubstr("without gaps, but [3, 4] follows layer 2"));
  EXPECT_THAT(refusal({{0, 2}, {2, 2}, {2, 4}}, 4), HasSubstr("without gaps"));
}

}  // namespace
}  // namespace rookery::plan
