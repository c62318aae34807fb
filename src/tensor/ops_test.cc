#include "tensor/ops.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tensor/batch.h"
#include "tensor/reference.h"

// Every fused operator against the plain expression: values and all gradients, at odd sizes.
namespace rookery::ops {
namespace {

using Build = std::function<at::Tensor(const std::vector<at::Tensor>&)>;

at::Tensor random(at::IntArrayRef shape, double scale = 1) { return at::randn(shape) * scale; }

double relative_error(const at::Tensor& a, const at::Tensor& b) {
  return ((a - b).norm() / (b.norm() + 1e-12)).item<double>();
}

struct Result {
  at::Tensor value;
  std::vector<at::Tensor> gradients;
};

// The value of `build` on leaves with these contents, and their gradients for a random upstream gradient. With
// `direct`, the leaves have a grad() already, as parameters of a store do.
Result evaluate(const Build& build, const std::vector<at::Tensor>& contents, bool direct) {
  std::vector<at::Tensor> leaves;
  for (const at::Tensor& content : contents) {
    leaves.push_back(content.clone().set_requires_grad(true));
    if (direct) leaves.back().mutable_grad() = at::full_like(content, 0.5);
  }
  at::Tensor value = build(leaves);
  at::manual_seed(99);
  value.backward(at::randn_like(value));
  Result result{value.detach(), {}};
  for (const at::Tensor& leaf : leaves) result.gradients.push_back(direct ? leaf.grad() - 0.5 : leaf.grad());
  return result;
}

void expect_equal(const Build& fused, const Build& plain, const std::vector<at::Tensor>& inputs) {
  constexpr double kTolerance = 3e-6;
  const Result expected = evaluate(plain, inputs, false);
  for (const bool direct : {false, true}) {
    const Result got = evaluate(fused, inputs, direct);
    EXPECT_LT(relative_error(got.value, expected.value), kTolerance);
    ASSERT_EQ(got.gradients.size(), expected.gradients.size());
    for (std::size_t i = 0; i < got.gradients.size(); ++i) {
      EXPECT_LT(relative_error(got.gradients[i], expected.gradients[i]), kTolerance) << "gradient of input " << i;
    }
  }
}

class OpsTest : public testing::Test {
 protected:
  void SetUp() override { at::manual_seed(7); }
};

TEST_F(OpsTest, LinearWithEveryEpilogue) {
  for (const Activation activation : {Activation::kNone, Activation::kRelu, Activation::kGelu}) {
    for (const auto& [rows, in, out] : {std::tuple{1, 1, 1}, {7, 5, 3}, {33, 17, 50}, {64, 128, 384}}) {
      const std::vector<at::Tensor> inputs = {random({2, rows, in}), random({out, in}, 0.3), random({out}),
                                              random({2, rows, out})};
      expect_equal([&](const auto& t) { return ops::linear(t[0], t[1], t[2], activation, t[3]); },
                   [&](const auto& t) { return reference::linear(t[0], t[1], t[2], activation, t[3]); }, inputs);
    }
  }
}

TEST_F(OpsTest, LinearWithoutBiasAndResidual) {
  expect_equal([](const auto& t) { return ops::linear(t[0], t[1]); },
               [](const auto& t) { return reference::linear(t[0], t[1], {}, Activation::kNone, {}); },
               {random({9, 31}), random({13, 31})});
}

TEST_F(OpsTest, LayerNorm) {
  for (const std::int64_t width : {7, 16, 80, 129}) {
    expect_equal([](const auto& t) { return ops::layer_norm(t[0], t[1], t[2]); },
                 [](const auto& t) { return reference::layer_norm(t[0], t[1], t[2], 1e-5); },
                 {random({3, 11, width}), random({width}), random({width})});
  }
}

TEST_F(OpsTest, Embedding) {
  const at::Tensor ids = at::randint(0, 13, {3, 9}, at::kLong);
  expect_equal([&](const auto& t) { return ops::embedding(ids, t[0], t[1]); },
               [&](const auto& t) { return reference::embedding(ids, t[0], t[1]); },
               {random({13, 20}), random({12, 20})});
  expect_equal([&](const auto& t) { return ops::embedding(ids, t[0]); },
               [&](const auto& t) { return reference::embedding(ids, t[0], {}); }, {random({13, 20})});
}

TEST_F(OpsTest, SelfAttention) {
  for (const std::int64_t head_width : {16, 64, 80, 5}) {
    for (const std::int64_t tokens : {1, 6, 17, 100}) {
      for (const bool causal : {true, false}) {
        const std::int64_t heads = 3, width = heads * head_width;
        expect_equal([&](const auto& t) { return ops::self_attention(t[0], heads, causal); },
                     [&](const auto& t) {
                       const auto parts = t[0].chunk(3, -1);
                       return reference::attention(parts[0], parts[1], parts[2], heads, causal, {});
                     },
                     {random({2, tokens, 3 * width})});
      }
    }
  }
}

TEST_F(OpsTest, AttentionWithPadding) {
  const at::Tensor lengths = at::tensor({1, 13, 7}, at::kLong);
  expect_equal([&](const auto& t) { return ops::self_attention(t[0], 2, false, lengths); },
               [&](const auto& t) {
                 const auto parts = t[0].chunk(3, -1);
                 return reference::attention(parts[0], parts[1], parts[2], 2, false, lengths);
               },
               {random({3, 13, 96})});
  expect_equal([&](const auto& t) { return ops::cross_attention(t[0], t[1], 2, lengths); },
               [&](const auto& t) {
                 const auto parts = t[1].chunk(2, -1);
                 return reference::attention(t[0], parts[0], parts[1], 2, false, lengths);
               },
               {random({3, 5, 32}), random({3, 13, 64})});
}

TEST_F(OpsTest, CrossEntropy) {
  at::Tensor targets = at::randint(0, 37, {21}, at::kLong);
  targets[4] = kIgnoredTarget;
  const at::Tensor logits = random({21, 37}, 3);
  expect_equal([&](const auto& t) { return ops::cross_entropy(t[0], targets).sum; },
               [&](const auto& t) { return reference::cross_entropy(t[0], targets).sum; }, {logits});
  EXPECT_EQ(ops::cross_entropy(logits, targets).correct, reference::cross_entropy(logits, targets).correct);
}

TEST_F(OpsTest, LinearCrossEntropyOverSeveralBlocks) {
  for (const std::int64_t rows : {1, 700}) {
    at::Tensor targets = at::randint(0, 50, {rows}, at::kLong);
    if (rows > 1) targets[rows - 1] = kIgnoredTarget;
    const std::vector<at::Tensor> inputs = {random({rows, 24}), random({50, 24})};
    expect_equal(
        [&](const auto& t) { return ops::linear_cross_entropy(t[0], t[1], targets).sum; },
        [&](const auto& t) {
          return reference::cross_entropy(reference::linear(t[0], t[1], {}, Activation::kNone, {}), targets).sum;
        },
        inputs);
  }
}

TEST_F(OpsTest, NothingIsRecordedWithoutGradients) {
  const at::NoGradGuard no_gradients;
  const at::Tensor x = random({4, 8}), weight = random({3, 8}).set_requires_grad(true);
  EXPECT_FALSE(ops::linear(x, weight).requires_grad());
  EXPECT_FALSE(ops::linear_cross_entropy(x, weight, at::zeros({4}, at::kLong)).sum.requires_grad());
}

TEST_F(OpsTest, DropoutKeepsTheMeanAndItsOwnMaskInBackward) {
  const at::Tensor x = at::ones({100, 100}).set_requires_grad(true);
  const at::Tensor y = ops::dropout(x, 0.25, 42);
  EXPECT_NEAR(y.mean().item<double>(), 1, 0.03);
  EXPECT_TRUE(at::equal(y, ops::dropout(x, 0.25, 42)));
  EXPECT_FALSE(at::equal(y, ops::dropout(x, 0.25, 43)));
  y.sum().backward();
  EXPECT_TRUE(at::equal(x.grad(), y.detach()));
}

// Rebinding a parameter between forward and backward must not change what backward uses.
TEST_F(OpsTest, BackwardUsesTheValuesOfForward) {
  const at::Tensor x = random({4, 8}).set_requires_grad(true);
  at::Tensor weight = random({3, 8}).set_requires_grad(true);
  const at::Tensor before = weight.detach().clone();
  const at::Tensor y = ops::linear(x, weight);
  weight.set_data(random({3, 8}));
  y.sum().backward();
  EXPECT_LT(relative_error(x.grad(), at::ones({4, 3}).matmul(before)), 1e-6);
}

}  // namespace
}  // namespace rookery::ops
