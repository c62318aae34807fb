#include "train/learner.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "model/profile.h"

namespace rookery::train {
namespace {

const model::ModelOptions kOptions =
    model::complete_options({.kind = "gpt", .layers = 2, .width = 32, .heads = 2, .context = 8, .vocabulary = 20});

struct WholeModel {
  explicit WholeModel(const OptimizerOptions& optimizer)
      : model(model::build_model(kOptions)),
        stage(*model, {0, model->size()}, plan::Versions::kLatest, optimizer, at::kCPU) {
    stage.initialize(1);
  }
  std::unique_ptr<model::Model> model;
  Stage stage;
};

class TestLearner : private WholeModel, public Learner {
 public:
  explicit TestLearner(const OptimizerOptions& optimizer = {}) : WholeModel(optimizer), Learner(stage) {}

  ParameterStore& store() { return stage.store(); }
};

// Targets are ignored unevenly, so slices have different numbers of loss terms.
Batch uneven_batch() {
  Batch batch = model::random_batch(Problem::kLanguageModel, kOptions, 6, 2);
  batch.targets.select(0, 1).fill_(kIgnoredTarget);
  batch.targets[4][3] = kIgnoredTarget;
  batch.loss_terms -= 9;
  return batch;
}

TEST(LearnerTest, GradientsDoNotDependOnTheNumberOfMicroBatches) {
  const Batch batch = uneven_batch();
  TestLearner whole, parts;
  const LossReport a = whole.accumulate_gradients(batch, 1, 0);
  for (const std::int64_t n : {2, 4, 6}) {
    const LossReport b = parts.accumulate_gradients(batch, n, 0);
    EXPECT_NEAR(a.loss, b.loss, 1e-6);
    EXPECT_NEAR(a.accuracy, b.accuracy, 1e-12);
    const at::Tensor difference = whole.store().gradients() - parts.store().gradients();
    EXPECT_LT(difference.norm().item<double>(), 1e-6 * whole.store().gradients().norm().item<double>() + 1e-9);
  }
}

TEST(LearnerTest, EvaluationChangesNothingAndAgreesWithTraining) {
  const Batch batch = uneven_batch();
  TestLearner learner;
  const at::Tensor before = learner.store().values().clone();
  const LossReport report = learner.evaluate(batch);
  EXPECT_TRUE(at::equal(learner.store().values(), before));
  EXPECT_NEAR(report.loss, learner.accumulate_gradients(batch, 1, 0).loss, 1e-6);
}

TEST(LearnerTest, ClippingBoundsTheGradientThatIsApplied) {
  TestLearner learner({.kind = "sgd", .weight_decay = 0, .momentum = 0});
  const at::Tensor before = learner.store().values().clone();
  learner.accumulate_gradients(uneven_batch(), 1, 0);
  const double norm = learner.update(1.0, 0.01);
  EXPECT_GT(norm, 0.01);
  EXPECT_NEAR((learner.store().values() - before).norm().item<double>(), 0.01, 1e-5);
}

TEST(LearnerTest, SlicesCoverTheBatch) {
  const Batch batch = uneven_batch();
  std::int64_t samples = 0, terms = 0, tokens = 0;
  for (std::int64_t i = 0; i < 4; ++i) {
    const Batch part = slice(batch, i, 4);
    samples += part.samples;
    terms += part.loss_terms;
    tokens += part.tokens;
  }
  EXPECT_EQ(samples, batch.samples);
  EXPECT_EQ(terms, batch.loss_terms);
  EXPECT_EQ(tokens, batch.tokens);
}

}  // namespace
}  // namespace rookery::train
