#include "model/model.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "model/profile.h"
#include "tensor/allocator.h"
#include "tensor/optimizer.h"

namespace rookery::model {
namespace {

ModelOptions small(const std::string& kind) {
  ModelOptions o{.kind = kind};
  if (find_kind(kind).problem == Problem::kClassification) {
    o.width = 8;
    o.image_size = 32;
    if (kind == "mlp" || kind == "cnn") o.layers = 2;
  } else {
    o.layers = 2;
    o.width = 32;
    o.heads = 2;
    o.context = 9;
    o.vocabulary = 50;
  }
  return complete_options(o);
}

struct BoundModel {
  explicit BoundModel(const ModelOptions& options, std::uint64_t seed = 1)
      : model(build_model(options)), store(model->parameters(), model->buffers()) {
    store.initialize(seed);
  }

  ops::LossSum loss(const Batch& batch, const Pass& pass) const {
    return model->loss(model->forward(batch.inputs, pass, 0, model->size() - 1), batch.targets, pass);
  }

  std::unique_ptr<Model> model;
  ParameterStore store;
};

class EveryKind : public testing::TestWithParam<std::string> {
 protected:
  static void SetUpTestSuite() { install_tensor_allocator(); }  // as the program does
};

// A few steps on one batch: every kind is wired so that its loss falls, and every parameter gets a gradient.
TEST_P(EveryKind, LearnsOneBatchByHeart) {
  const ModelOptions options = small(GetParam());
  BoundModel bound(options);
  const Batch batch = random_batch(find_kind(options.kind).problem, options, 4, 3);
  const auto optimizer = make_optimizer({.kind = "adam", .weight_decay = 0}, bound.store);
  double first = 0, last = 0;
  for (int step = 0; step < 12; ++step) {
    bound.store.zero_gradients();
    const at::Tensor loss = bound.loss(batch, {.training = true, .key = 0}).sum / batch.loss_terms;
    loss.backward();
    if (step == 0) {
      first = loss.item<double>();
      for (const Parameter& p : bound.model->parameters()) {
        EXPECT_GT(p.tensor().grad().norm().item<double>(), 0) << p.spec().name;
      }
    }
    last = loss.item<double>();
    optimizer->step(3e-3, 1);
  }
  EXPECT_LT(last, 0.8 * first);
}

// What crosses a cut is all that later layers need: running in two parts gives the same bits.
TEST_P(EveryKind, CanBeCutAnywhere) {
  const ModelOptions options = small(GetParam());
  BoundModel bound(options);
  const Batch batch = random_batch(find_kind(options.kind).problem, options, 2, 3);
  const at::NoGradGuard no_gradients;
  const Model& model = *bound.model;
  const at::Tensor whole = model.predict(batch.inputs).at(0);
  for (std::size_t cut = 1; cut < model.size(); ++cut) {
    const Tensors border = model.forward(batch.inputs, {}, 0, cut);
    EXPECT_TRUE(at::equal(model.forward(border, {}, cut, model.size()).at(0), whole)) << "cut at " << cut;
  }
}

TEST_P(EveryKind, IsTheSameForTheSameSeed) {
  const BoundModel a(small(GetParam()), 5), b(small(GetParam()), 5), c(small(GetParam()), 6);
  EXPECT_TRUE(at::equal(a.store.values(), b.store.values()));
  EXPECT_FALSE(at::equal(a.store.values(), c.store.values()));
}

INSTANTIATE_TEST_SUITE_P(Kinds, EveryKind,
                         testing::Values("gpt", "bert", "seq2seq", "mlp", "cnn", "resnet18", "resnet50", "vgg16"),
                         [](const auto& kind) { return kind.param; });

TEST(ModelTest, PresetsHaveTheirPublishedSizes) {
  EXPECT_NEAR(static_cast<double>(build_model({.kind = "gpt-neo-8m"})->parameter_count()), 8.05e6, 0.05e6);
  EXPECT_NEAR(static_cast<double>(build_model({.kind = "gpt-neo-125m"})->parameter_count()), 124.4e6, 1e6);
  EXPECT_NEAR(
      static_cast<double>(build_model({.kind = "resnet50", .classes = 1000, .image_size = 224})->parameter_count()),
      25.56e6, 0.01e6);
  EXPECT_NEAR(
      static_cast<double>(build_model({.kind = "resnet18", .classes = 1000, .image_size = 224})->parameter_count()),
      11.69e6, 0.01e6);
}

TEST(ModelTest, GptNeverLooksAhead) {
  BoundModel bound(small("gpt"));
  const at::NoGradGuard no_gradients;
  const at::Tensor ids = at::randint(0, 50, {1, 9}, at::kLong);
  at::Tensor changed = ids.clone();
  changed[0][8] = (changed[0][8] + 1) % 50;
  const at::Tensor a = bound.model->predict({ids}).at(0), b = bound.model->predict({changed}).at(0);
  EXPECT_TRUE(at::equal(a.narrow(1, 0, 8), b.narrow(1, 0, 8)));
  EXPECT_FALSE(at::equal(a.select(1, 8), b.select(1, 8)));
}

TEST(ModelTest, Seq2SeqDoesNotSeePadding) {
  BoundModel bound(small("seq2seq"));
  const at::NoGradGuard no_gradients;
  const at::Tensor source = at::randint(1, 50, {1, 9}, at::kLong), target = at::randint(1, 50, {1, 9}, at::kLong);
  at::Tensor other = source.clone();
  other.narrow(1, 5, 4).fill_(7);
  const at::Tensor lengths = at::full({1}, 5, at::kLong);
  EXPECT_TRUE(at::equal(bound.model->predict({source, target, lengths}).at(0),
                        bound.model->predict({other, target, lengths}).at(0)));
}

TEST(ModelTest, DropoutMasksAreAFunctionOfTheKey) {
  ModelOptions options = small("gpt");
  options.dropout = 0.3;
  BoundModel bound(options);
  const Batch batch = random_batch(Problem::kLanguageModel, options, 2, 3);
  const auto loss = [&](bool training, std::uint64_t key) {
    return bound.loss(batch, {.training = training, .key = key}).sum.item<float>();
  };
  EXPECT_EQ(loss(true, 1), loss(true, 1));
  EXPECT_NE(loss(true, 1), loss(true, 2));
  EXPECT_EQ(loss(false, 1), loss(false, 2));
}

TEST(ModelTest, MistakesNameTheKey) {
  const auto error = [](ModelOptions o) -> std::string {
    try {
      build_model(o);
    } catch (const InputError& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_THAT(error({.kind = "gptt"}), testing::HasSubstr("did you mean 'gpt'"));
  EXPECT_THAT(error({.kind = "gpt", .width = 100, .heads = 3, .vocabulary = 9}), testing::HasSubstr("model.heads"));
  EXPECT_THAT(error({.kind = "gpt"}), testing::HasSubstr("model.vocabulary"));
  EXPECT_THAT(error({.kind = "resnet18", .stem = "round"}), testing::HasSubstr("model.stem"));
  EXPECT_THAT(error({.kind = "vgg16", .image_size = 16}), testing::HasSubstr("model.image_size"));
}

TEST(ProfileTest, CountsEveryParameterOnceAndMeasuresEveryLayer) {
  install_tensor_allocator();
  const ModelOptions options = small("gpt");
  const auto model = build_model(options);
  const auto costs = profile(*model, random_batch(Problem::kLanguageModel, options, 2, 1), 1);
  ASSERT_EQ(costs.size(), model->size());
  std::int64_t parameters = 0;
  for (const LayerCost& cost : costs) {
    parameters += cost.parameters;
    EXPECT_GE(cost.output_bytes, cost.gradient_bytes) << cost.name;
    EXPECT_GT(cost.forward.count(), 0);
    EXPECT_GT(cost.backward.count(), 0);
  }
  EXPECT_EQ(parameters, model->parameter_count());
  EXPECT_EQ(costs[1].output_bytes, 9 * 32 * 4);
  EXPECT_EQ(costs[1].gradient_bytes, 9 * 32 * 4);
  EXPECT_EQ(costs.back().tied, costs[0].parameters - options.context * options.width);
  // A block keeps at least its input, what attention and the feed-forward layer take, and the latter's hidden values.
  EXPECT_GT(costs[1].activation_bytes, 9 * (3 + 2 + 4) * 32 * 4);
  EXPECT_LT(costs[1].activation_bytes, 9 * 100 * 32 * 4);
}

}  // namespace
}  // namespace rookery::model
