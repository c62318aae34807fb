#include "train/trial.h"

#include <gtest/gtest.h>

#include "train/learner.h"

namespace rookery::train {
namespace {

Blueprint blueprint(const std::string& kind, const std::string& source) {
  use_threads(1);
  config::Settings settings;
  settings.model.kind = kind;
  settings.model.layers = 2;
  settings.model.width = 32;
  settings.model.heads = 2;
  settings.data.source = source;
  settings.train.batch = 4;
  settings.train.micro_batches = 2;
  return make_blueprint(settings);
}

// Layers that each take so many seconds.
Profile profile_of(const Blueprint& blueprint, double forward, Bytes activations = 0) {
  Profile profile;
  profile.layers.assign(blueprint.model->size(), {.forward = forward, .activations = activations});
  return profile;
}

TEST(TrialTest, ComparesWithWhatLayersTookAlone) {
  for (const auto& [kind, source] : {std::pair{"gpt", "tales"}, {"seq2seq", "translation"}}) {
    const Blueprint own = blueprint(kind, source);
    const auto quick = try_out(own, profile_of(own, 1e-6), 1 << 30), slow = try_out(own, profile_of(own, 0.2), 1 << 30);
    ASSERT_TRUE(quick && slow) << kind;
    EXPECT_GT(*quick, 1) << kind;  // nobody computes a layer in a microsecond,
    EXPECT_LT(*slow, 1) << kind;   // or needs a fifth of a second for one of these
    EXPECT_GT(*slow, 0) << kind;
  }
}

TEST(TrialTest, WhatDoesNotFitIsNotTried) {
  const Blueprint own = blueprint("gpt", "tales");
  EXPECT_FALSE(try_out(own, profile_of(own, 1e-3, 1 << 20), 1 << 16));
  EXPECT_FALSE(try_out(own, profile_of(own, 10), 1 << 30));  // or takes too long
}

TEST(TrialTest, SeveralThreadsAreNotTried) {
  const Blueprint own = blueprint("gpt", "tales");
  use_threads(2);
  EXPECT_FALSE(try_out(own, profile_of(own, 1e-3), 1 << 30));
}

TEST(TrialTest, ParametersAreFreeAfterwards) {
  const Blueprint own = blueprint("gpt", "tales");
  ASSERT_TRUE(try_out(own, profile_of(own, 1e-3), 1 << 30));
  EXPECT_TRUE(try_out(own, profile_of(own, 1e-3), 1 << 30));  // they are bound once more
}

}  // namespace
}  // namespace rookery::train
