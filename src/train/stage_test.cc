#include "train/stage.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "model/profile.h"

namespace rookery::train {
namespace {

using plan::Cut;
using plan::Layers;
using plan::Versions;

constexpr std::uint64_t kSeed = 3;

model::ModelOptions options_of(const std::string& kind) {
  model::ModelOptions options{.kind = kind, .layers = 2, .width = 16, .heads = 2, .context = 8, .vocabulary = 20};
  if (kind == "resnet18") options = {.kind = kind, .classes = 10, .channels = 3, .image_size = 16};
  options.dropout = kind == "gpt" ? 0.2 : 0;
  return model::complete_options(options);
}

Batch batch_of(const std::string& kind, std::uint64_t seed) {
  return model::random_batch(model::find_kind(kind).problem, options_of(kind), 4, seed);
}

// A model that is cut, as if on several peers: each has a model of its own, of which it binds its layers.
class Chain {
 public:
  Chain(const std::string& kind, const Cut& cut, Versions versions) {
    for (const Layers& layers : cut) {
      models_.push_back(model::build_model(options_of(kind)));
      stages.push_back(std::make_unique<Stage>(*models_.back(), layers, versions,
                                               OptimizerOptions{.kind = "sgd", .momentum = 0}, at::kCPU));
      stages.back()->initialize(kSeed);
    }
  }

  double forward(std::uint64_t number, const Batch& batch) {
    const model::Pass pass{.training = true, .key = 77 + number};
    Tensors border = batch.inputs;
    for (std::size_t i = 0; i + 1 < stages.size(); ++i) border = stages[i]->forward(number, border, pass);
    return stages.back()->loss(number, border, batch.targets, pass, 10).sum.item<double>();
  }

  void backward(std::uint64_t number) {
    Tensors gradients;
    for (std::size_t i = stages.size(); i-- > 0;) gradients = stages[i]->backward(number, gradients);
  }

  // By name; those of replicas are added to what they are replicas of.
  std::map<std::string, at::Tensor> gradients() {
    std::map<std::string, at::Tensor> all;
    for (const auto& stage : stages) {
      for (ParameterStore* store : {&stage->store(), &stage->replicas()}) {
        for (const Parameter& parameter : store->entries()) {
          if (!parameter.tensor().requires_grad()) continue;
          const at::Tensor own = parameter.tensor().grad().clone();
          const auto [place, is_new] = all.emplace(parameter.spec().name, own);
          if (!is_new) place->second += own;
        }
      }
    }
    return all;
  }

  std::vector<std::unique_ptr<model::Model>> models_;
  std::vector<std::unique_ptr<Stage>> stages;
};

void expect_equal(const std::map<std::string, at::Tensor>& a, const std::map<std::string, at::Tensor>& b,
                  double tolerance = 1e-5) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, tensor] : a) {
    EXPECT_TRUE(at::allclose(tensor, b.at(name), tolerance, tolerance)) << name;
  }
}

std::size_t layers_of(const std::string& kind) { return model::build_model(options_of(kind))->size(); }

// Gradients of a model that is cut anywhere, also between tied layers and where a skip connection rides along, are
// those of the whole.
TEST(StageTest, ACutModelHasTheGradientsOfTheWhole) {
  for (const std::string kind : {"gpt", "seq2seq", "resnet18", "mlp"}) {
    const std::size_t layers = layers_of(kind);
    Chain whole(kind, {{0, layers}}, Versions::kLatest);
    const double loss = whole.forward(0, batch_of(kind, 1));
    whole.backward(0);
    for (std::size_t cut = 1; cut < layers; ++cut) {
      for (const Versions versions : {Versions::kStash, Versions::kLatest, Versions::kRecompute}) {
        Chain chain(kind, {{0, cut}, {cut, layers}}, versions);
        EXPECT_NEAR(chain.forward(0, batch_of(kind, 1)), loss, 1e-4 * loss) << kind << " cut at " << cut;
        chain.backward(0);
        SCOPED_TRACE(kind + " cut at " + std::to_string(cut));
        expect_equal(chain.gradients(), whole.gradients());
      }
    }
  }
}

// What is said to be ready during the backward pass does not change any more; and most of it is ready before the end.
TEST(StageTest, GradientsThatAreReadyStayAsTheyAre) {
  for (const std::string kind : {"gpt", "seq2seq", "mlp", "resnet18"}) {
    Chain whole(kind, {{0, layers_of(kind)}}, Versions::kLatest);
    Stage& stage = *whole.stages[0];
    struct Seen {
      std::size_t from;
      at::Tensor gradients;
    };
    std::vector<Seen> seen;
    const Batch batch = batch_of(kind, 1);
    model::Pass pass{.training = true, .key = 1};
    pass.reached = [&](std::size_t layer) {
      seen.push_back({stage.begin_of(layer), stage.store().gradients().clone()});
    };
    stage.loss(0, batch.inputs, batch.targets, pass, 1);
    stage.backward(0, {});
    ASSERT_GE(seen.size(), 2u) << kind;
    for (const Seen& s : seen) {
      const auto from = static_cast<std::int64_t>(s.from), rest = stage.store().size() - from;
      EXPECT_TRUE(at::equal(s.gradients.narrow(0, from, rest), stage.store().gradients().narrow(0, from, rest)))
          << kind << " from " << from;
    }
  }
}

TEST(StageTest, EveryLayerMayBeAStage) {
  for (const std::string kind : {"gpt", "seq2seq"}) {
    Cut cut;
    for (std::size_t i = 0; i < layers_of(kind); ++i) cut.push_back({i, i + 1});
    Chain whole(kind, {{0, layers_of(kind)}}, Versions::kLatest), chain(kind, cut, Versions::kStash);
    for (Chain* one : {&whole, &chain}) {
      one->forward(0, batch_of(kind, 1));
      one->forward(1, batch_of(kind, 2));
      one->backward(0);
      one->backward(1);
    }
    expect_equal(chain.gradients(), whole.gradients());
  }
}

// A stage from the middle of a gpt. An update comes between a micro-batch's forward and its backward, or before both.
struct Passed {
  at::Tensor parameters, inputs;  // gradients
  std::size_t versions = 0;
};

Passed pass_across_an_update(Versions versions, bool update_first) {
  Chain chain("gpt", {{1, 3}}, versions);
  Stage& stage = *chain.stages[0];
  const at::Tensor input = at::randn({4, 8, 16}, at::kFloat), gradient = at::randn({4, 8, 16}, at::kFloat);
  const model::Pass pass{.training = true, .key = 5};
  const auto update = [&] {
    stage.store().gradients().fill_(1e-2);
    stage.update(1, 1);
    stage.store().zero_gradients();
  };
  if (update_first) update();
  stage.forward(0, {input}, pass);
  if (!update_first) update();
  Passed passed{.parameters = {}, .inputs = {}, .versions = stage.versions()};
  passed.inputs = stage.backward(0, {gradient}).at(0);
  passed.parameters = stage.store().gradients().clone();
  EXPECT_EQ(stage.versions(), 1u);
  EXPECT_EQ(stage.on_their_way(), 0u);
  return passed;
}

Passed pass_without_update() {
  Chain chain("gpt", {{1, 3}}, Versions::kStash);
  Stage& stage = *chain.stages[0];
  const at::Tensor input = at::randn({4, 8, 16}, at::kFloat), gradient = at::randn({4, 8, 16}, at::kFloat);
  stage.forward(0, {input}, {.training = true, .key = 5});
  const at::Tensor inputs = stage.backward(0, {gradient}).at(0);
  return {.parameters = stage.store().gradients().clone(), .inputs = inputs};
}

TEST(StageTest, StashUsesTheWeightsOfTheForwardAndRecomputeTheLatest) {
  const auto with_the_same_numbers = [](const auto& run) {
    at::manual_seed(1);
    return run();
  };
  const Passed before = with_the_same_numbers(pass_without_update);
  const Passed after = with_the_same_numbers([] { return pass_across_an_update(Versions::kStash, true); });
  const Passed stash = with_the_same_numbers([] { return pass_across_an_update(Versions::kStash, false); });
  const Passed latest = with_the_same_numbers([] { return pass_across_an_update(Versions::kLatest, false); });
  const Passed recomputed = with_the_same_numbers([] { return pass_across_an_update(Versions::kRecompute, false); });
  EXPECT_EQ(stash.versions, 2u);
  EXPECT_EQ(latest.versions, 1u);
  EXPECT_TRUE(at::equal(stash.parameters, before.parameters));
  EXPECT_TRUE(at::equal(stash.inputs, before.inputs));
  EXPECT_TRUE(at::equal(recomputed.parameters, after.parameters));
  EXPECT_TRUE(at::equal(recomputed.inputs, after.inputs));
  // The latest weights with activations of older ones: neither.
  EXPECT_FALSE(at::allclose(latest.inputs, before.inputs, 1e-4, 1e-6));
  EXPECT_FALSE(at::allclose(latest.inputs, after.inputs, 1e-4, 1e-6));
}

// Statistics of batch norm are those of one forward, though it is done twice.
TEST(StageTest, RecomputingUpdatesBatchNormOnce) {
  const auto statistics = [](Versions versions) {
    Chain chain("resnet18", {{0, 4}, {4, layers_of("resnet18")}}, versions);
    for (std::uint64_t i = 0; i < 3; ++i) {
      chain.forward(i, batch_of("resnet18", i));
      chain.backward(i);
    }
    return chain.stages[0]->store().buffers().clone();
  };
  EXPECT_TRUE(at::allclose(statistics(Versions::kRecompute), statistics(Versions::kStash), 1e-6, 1e-7));
}

}  // namespace
}  // namespace rookery::train
