#include "tensor/optimizer.h"

#include <cmath>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace rookery {
namespace {

// A matrix, which decays, and a bias, which does not: 35 + 5 elements, so that vectors end in the middle.
std::vector<Parameter> two_parameters() {
  return {Parameter({"weight", {5, 7}, Initializer::normal(1), true}),
          Parameter({"bias", {5}, Initializer::normal(1), false})};
}

constexpr double kLr = 0.03, kDecay = 0.1, kBeta1 = 0.9, kBeta2 = 0.98, kEpsilon = 1e-8, kMomentum = 0.8;

OptimizerOptions options(const std::string& kind) {
  return {.kind = kind,
          .weight_decay = kDecay,
          .beta1 = kBeta1,
          .beta2 = kBeta2,
          .epsilon = kEpsilon,
          .momentum = kMomentum};
}

// One update of one tensor in double precision, as the papers write it.
using Rule = std::function<void(at::Tensor& x, at::Tensor g, double decay, int step, at::Tensor& m, at::Tensor& v)>;

// 50 steps of both, on the same gradients.
void expect_follows(const OptimizerOptions& o, const Rule& rule) {
  at::manual_seed(3);
  const auto parameters = two_parameters();
  ParameterStore store(parameters, {});
  store.initialize(1);
  const auto optimizer = make_optimizer(o, store);
  std::vector<at::Tensor> x, m, v;
  for (const Parameter& p : parameters) {
    x.push_back(p.tensor().detach().to(at::kDouble));
    m.push_back(at::zeros_like(x.back()));
    v.push_back(at::zeros_like(x.back()));
  }
  for (int step = 1; step <= 50; ++step) {
    store.gradients().copy_(at::randn({store.size()}));
    optimizer->step(kLr, 0.5);
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const at::Tensor g = parameters[i].tensor().grad().to(at::kDouble) * 0.5;
      rule(x[i], g, parameters[i].spec().decay ? kDecay : 0, step, m[i], v[i]);
    }
  }
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const at::Tensor got = parameters[i].tensor().detach().to(at::kDouble);
    EXPECT_LT((got - x[i]).abs().max().item<double>(), 2e-5) << parameters[i].spec().name;
  }
}

TEST(OptimizerTest, Sgd) {
  for (const bool nesterov : {false, true}) {
    OptimizerOptions o = options("sgd");
    o.nesterov = nesterov;
    expect_follows(o, [&](at::Tensor& x, at::Tensor g, double decay, int, at::Tensor& m, at::Tensor&) {
      g = g + decay * x;
      m = kMomentum * m + g;
      x = x - kLr * (nesterov ? g + kMomentum * m : m);
    });
  }
}

Rule adam(bool decoupled) {
  return [=](at::Tensor& x, at::Tensor g, double decay, int step, at::Tensor& m, at::Tensor& v) {
    if (decoupled) x = x * (1 - kLr * decay);
    if (!decoupled) g = g + decay * x;
    m = kBeta1 * m + (1 - kBeta1) * g;
    v = kBeta2 * v + (1 - kBeta2) * g * g;
    const at::Tensor first = m / (1 - std::pow(kBeta1, step)), second = v / (1 - std::pow(kBeta2, step));
    x = x - kLr * first / (second.sqrt() + kEpsilon);
  };
}

TEST(OptimizerTest, Adam) { expect_follows(options("adam"), adam(false)); }
TEST(OptimizerTest, AdamW) { expect_follows(options("adamw"), adam(true)); }

TEST(OptimizerTest, Lamb) {
  expect_follows(options("lamb"),
                 [](at::Tensor& x, at::Tensor g, double decay, int step, at::Tensor& m, at::Tensor& v) {
                   m = kBeta1 * m + (1 - kBeta1) * g;
                   v = kBeta2 * v + (1 - kBeta2) * g * g;
                   const at::Tensor first = m / (1 - std::pow(kBeta1, step)), second = v / (1 - std::pow(kBeta2, step));
                   const at::Tensor r = first / (second.sqrt() + kEpsilon) + decay * x;
                   const double trust = decay > 0 ? x.norm().item<double>() / r.norm().item<double>() : 1;
                   x = x - kLr * trust * r;
                 });
}

TEST(OptimizerTest, AccumulatedAdamCommitsMomentsOncePerWindow) {
  constexpr int kWindow = 4;
  for (const bool decoupled : {false, true}) {
    OptimizerOptions o = options(decoupled ? "accum-adamw" : "accum-adam");
    o.accumulate = kWindow;
    std::vector<at::Tensor> means;  // one per tensor, found by shape
    expect_follows(o, [&](at::Tensor& x, at::Tensor g, double decay, int step, at::Tensor& m, at::Tensor& v) {
      if (decoupled) x = x * (1 - kLr * decay);
      if (!decoupled) g = g + decay * x;
      auto mean = std::find_if(means.begin(), means.end(), [&](const at::Tensor& t) { return t.sizes() == x.sizes(); });
      if (mean == means.end()) mean = means.insert(means.end(), at::zeros_like(x));
      *mean = *mean + g / kWindow;
      const double k = std::ceil(static_cast<double>(step) / kWindow);
      const at::Tensor first = kBeta1 * m + (1 - kBeta1) * g, second = kBeta2 * v + (1 - kBeta2) * g * g;
      x = x - kLr / (1 - std::pow(kBeta1, k)) * first / ((second / (1 - std::pow(kBeta2, k))).sqrt() + kEpsilon);
      if (step % kWindow != 0) return;
      m = kBeta1 * m + (1 - kBeta1) * *mean;
      v = kBeta2 * v + (1 - kBeta2) * *mean * *mean;
      *mean = at::zeros_like(x);
    });
  }
}

// The parameters after some steps, on gradients that do not depend on the optimizer.
at::Tensor trajectory(const OptimizerOptions& o) {
  at::manual_seed(5);
  ParameterStore store(two_parameters(), {});
  store.initialize(2);
  const auto optimizer = make_optimizer(o, store);
  for (int step = 0; step < 50; ++step) {
    store.gradients().copy_(at::randn({store.size()}));
    optimizer->step(kLr, 1);
  }
  return store.values().clone();
}

TEST(OptimizerTest, AccumulationWithWindowOneIsAdamToTheLastBit) {
  EXPECT_TRUE(at::equal(trajectory(options("accum-adam")), trajectory(options("adam"))));
  EXPECT_TRUE(at::equal(trajectory(options("accum-adamw")), trajectory(options("adamw"))));
}

TEST(OptimizerTest, NormAndClipping) {
  ParameterStore store(two_parameters(), {});
  store.gradients().fill_(0.5);
  const double norm = gradient_norm(store);
  EXPECT_NEAR(norm, 0.5 * std::sqrt(40.0), 1e-6);
  EXPECT_EQ(clip_scale(norm, 0), 1);
  EXPECT_EQ(clip_scale(norm, 100), 1);
  EXPECT_NEAR(clip_scale(norm, 1) * norm, 1, 1e-12);
}

TEST(OptimizerTest, UnknownKindNamesTheNearest) {
  ParameterStore store(two_parameters(), {});
  try {
    make_optimizer(options("admaw"), store);
    FAIL() << "should have thrown";
  } catch (const InputError& e) {
    EXPECT_NE(std::string(e.what()).find("did you mean 'adamw'"), std::string::npos) << e.what();
  }
}

// A pass with work around it gives the same parameters, and sees every value once before its update and once after.
TEST(OptimizerTest, WhatIsDoneAroundAnUpdateSeesEveryValueOnce) {
  for (const char* kind : {"sgd", "adamw", "accum-adamw", "lamb"}) {
    const std::vector<Parameter> parameters = {Parameter({"weight", {300, 101}, Initializer::normal(1), true}),
                                               Parameter({"bias", {9001}, Initializer::normal(1), false})};
    ParameterStore store(parameters, {});
    const auto reference = [&] {
      store.initialize(1);
      at::manual_seed(5);
      store.gradients().copy_(at::randn({store.size()}));
      make_optimizer(options(kind), store)->step(kLr, 1);
      return store.values().clone();
    }();
    store.initialize(1);
    const at::Tensor start = store.values().clone(), before = at::zeros({store.size()}),
                     after = at::zeros({store.size()});
    const auto add = [&](const at::Tensor& to, std::size_t begin, std::size_t end) {
      const auto x = floats(store.values());
      for (std::size_t i = begin; i < end; ++i) floats(to)[i] += x[i];
    };
    make_optimizer(options(kind), store)
        ->step(
            kLr, 1,
            {.before = [&](auto b, auto e) { add(before, b, e); }, .after = [&](auto b, auto e) { add(after, b, e); }});
    EXPECT_TRUE(at::equal(store.values(), reference)) << kind;
    EXPECT_TRUE(at::equal(before, start)) << kind;
    EXPECT_TRUE(at::equal(after, reference)) << kind;
  }
}

}  // namespace
}  // namespace rookery
