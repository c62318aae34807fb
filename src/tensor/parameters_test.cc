#include "tensor/parameters.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace rookery {
namespace {

TEST(ParameterStoreTest, TensorsAreViewsOfTheFlatVectors) {
  const std::vector<Parameter> parameters = {Parameter({"a", {2, 3}, Initializer::constant(1)}),
                                             Parameter({"b", {4}, Initializer::constant(2), false})};
  ParameterStore store(parameters, {});
  store.initialize(1);
  EXPECT_TRUE(at::equal(store.values(), at::tensor({1, 1, 1, 1, 1, 1, 2, 2, 2, 2}, at::kFloat)));
  EXPECT_EQ(parameters[1].tensor().data_ptr<float>(), store.values().data_ptr<float>() + 6);
  EXPECT_EQ(parameters[1].tensor().grad().data_ptr<float>(), store.gradients().data_ptr<float>() + 6);
  EXPECT_EQ(store.ranges()[1].begin, 6);
  EXPECT_FALSE(store.ranges()[1].decay);
}

TEST(ParameterStoreTest, PlainOperatorsAccumulateIntoTheFlatGradients) {
  const std::vector<Parameter> parameters = {Parameter({"a", {3}, Initializer::constant(2)})};
  ParameterStore store(parameters, {});
  store.initialize(1);
  for (int i = 0; i < 2; ++i) (parameters[0].tensor() * parameters[0].tensor()).sum().backward();
  EXPECT_TRUE(at::equal(store.gradients(), at::full({3}, 8.0f)));
  store.zero_gradients();
  EXPECT_TRUE(at::equal(parameters[0].tensor().grad(), at::zeros({3})));
}

TEST(ParameterStoreTest, TiedParametersAreThereOnce) {
  const Parameter shared({"shared", {5}, Initializer::constant(1)});
  const std::vector<Parameter> parameters = {shared, Parameter({"other", {2}, {}}), shared};
  ParameterStore store(parameters, {});
  EXPECT_EQ(store.size(), 7);
}

// However a model is cut, its parts start with the same values.
TEST(ParameterStoreTest, InitialValuesDependOnNameAndSeedAlone) {
  const auto start = [](std::uint64_t seed, bool with_another) {
    const Parameter p({"block.1.weight", {101}, Initializer::normal(0.02)});
    std::vector<Parameter> parameters;
    if (with_another) parameters.push_back(Parameter({"block.0.weight", {33}, Initializer::uniform(1)}));
    parameters.push_back(p);
    ParameterStore store(parameters, {});
    store.initialize(seed);
    return p.tensor().detach().clone();
  };
  EXPECT_TRUE(at::equal(start(1, false), start(1, true)));
  EXPECT_FALSE(at::equal(start(1, false), start(2, false)));
}

TEST(ParameterStoreTest, WhoeverIsGivenParametersBeginsWithNothingButBuffers) {
  const std::vector<Parameter> parameters = {Parameter({"a", {3}, Initializer::normal(1)})},
                               buffers = {Parameter({"variance", {2}, Initializer::constant(1)})};
  ParameterStore store(parameters, buffers);
  store.initialize(1);
  store.begin_empty();
  EXPECT_TRUE(at::equal(store.values(), at::zeros({3})));
  EXPECT_TRUE(at::equal(buffers[0].tensor(), at::ones({2})));
}

TEST(ParameterStoreTest, InitialValuesHaveTheirDistribution) {
  const std::vector<Parameter> parameters = {Parameter({"normal", {100000}, Initializer::normal(0.5)}),
                                             Parameter({"uniform", {100000}, Initializer::uniform(0.5)})};
  ParameterStore store(parameters, {});
  store.initialize(1);
  const at::Tensor normal = parameters[0].tensor().detach(), uniform = parameters[1].tensor().detach();
  EXPECT_NEAR(normal.mean().item<double>(), 0, 0.01);
  EXPECT_NEAR(normal.std().item<double>(), 0.5, 0.01);
  EXPECT_NEAR(uniform.mean().item<double>(), 0, 0.01);
  EXPECT_LE(uniform.abs().max().item<double>(), 0.5);
  EXPECT_NEAR(uniform.std().item<double>(), 1 / std::sqrt(12.0), 0.01);
}

TEST(ParameterStoreTest, UnbindsWhenDestroyed) {
  const std::vector<Parameter> parameters = {Parameter({"a", {3}, {}})};
  { ParameterStore store(parameters, {}); }
  ParameterStore again(parameters, {});  // would be a bug if it were still bound
  EXPECT_EQ(again.size(), 3);
}

}  // namespace
}  // namespace rookery
