#include "data/sampler.h"

#include <set>
#include <vector>

#include <gtest/gtest.h>

namespace rookery::data {
namespace {

TEST(SamplerTest, EachEpochVisitsEverySampleOnce) {
  for (const std::uint64_t samples : {1, 2, 3, 64, 1000}) {
    const Sampler sampler(7, samples);
    for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
      std::set<std::uint64_t> seen;
      for (std::uint64_t k = 0; k < samples; ++k) {
        const auto place = sampler.at(epoch * samples + k);
        EXPECT_EQ(place.epoch, epoch);
        EXPECT_LT(place.index, samples);
        seen.insert(place.index);
      }
      EXPECT_EQ(seen.size(), samples);
    }
  }
}

TEST(SamplerTest, OrderDependsOnSeedAndEpochOnly) {
  const auto order = [](std::uint64_t seed, std::uint64_t epoch) {
    std::vector<std::uint64_t> indices;
    for (std::uint64_t k = 0; k < 100; ++k) indices.push_back(Sampler(seed, 100).at(100 * epoch + k).index);
    return indices;
  };
  EXPECT_EQ(order(1, 0), order(1, 0));
  EXPECT_NE(order(1, 0), order(1, 1));
  EXPECT_NE(order(1, 0), order(2, 0));
}

TEST(SamplerTest, EndlessDataNeverRepeats) {
  const Sampler sampler(1, 0);
  EXPECT_EQ(sampler.at(0), (Sampler::Place{0, 0}));
  EXPECT_EQ(sampler.at(std::uint64_t{1} << 40), (Sampler::Place{0, std::uint64_t{1} << 40}));
}

}  // namespace
}  // namespace rookery::data
