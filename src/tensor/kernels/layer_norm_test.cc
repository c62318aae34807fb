#include "tensor/kernels/layer_norm.h"

#include <gtest/gtest.h>

#include "tensor/kernels/internal/targets.h"
#include "tensor/kernels/internal/test_support.h"

namespace rookery::kernels {
namespace {

constexpr float kEpsilon = 1e-5f;

struct Result {
  std::vector<float> y, statistics, dx, dweight, dbias;
  bool operator==(const Result&) const = default;
};

struct Problem {
  std::int64_t rows, width;
  std::vector<float> x = random_floats(rows * width, 1), dy = random_floats(rows * width, 2);
  std::vector<float> weight = random_floats(width, 3), bias = random_floats(width, 4);

  Result run() const {
    Result r{x, std::vector<float>(2 * rows), dy, weight, bias};  // in place, and added to what is there
    layer_norm_forward(rows, width, r.y.data(), weight.data(), bias.data(), kEpsilon, r.y.data(), r.statistics.data());
    layer_norm_backward(rows, width, x.data(), weight.data(), r.statistics.data(), r.dx.data(), r.dx.data(),
                        r.dweight.data(), r.dbias.data());
    return r;
  }
};

void check(std::int64_t rows, std::int64_t width) {
  SCOPED_TRACE(testing::Message() << rows << " x " << width);
  const Problem p{rows, width};
  const Result r = p.run();
  std::vector<double> y(rows * width), dx(rows * width), dweight(p.weight.begin(), p.weight.end());
  std::vector<double> dbias(p.bias.begin(), p.bias.end());
  for (std::int64_t i = 0; i < rows; ++i) {
    const float *x = &p.x[i * width], *dy = &p.dy[i * width];
    double mean = 0, variance = 0, g_mean = 0, gn_mean = 0;
    for (std::int64_t j = 0; j < width; ++j) mean += double{x[j]} / static_cast<double>(width);
    for (std::int64_t j = 0; j < width; ++j) variance += (x[j] - mean) * (x[j] - mean) / static_cast<double>(width);
    const double scale = 1 / std::sqrt(variance + double{kEpsilon});
    for (std::int64_t j = 0; j < width; ++j) {
      const double normal = (x[j] - mean) * scale, g = double{dy[j]} * double{p.weight[j]};
      y[i * width + j] = normal * double{p.weight[j]} + double{p.bias[j]};
      dweight[j] += dy[j] * normal;
      dbias[j] += dy[j];
      g_mean += g / static_cast<double>(width);
      gn_mean += g * normal / static_cast<double>(width);
    }
    for (std::int64_t j = 0; j < width; ++j) {
      const double normal = (x[j] - mean) * scale, g = double{dy[j]} * double{p.weight[j]};
      dx[i * width + j] = scale * (g - g_mean - normal * gn_mean);
    }
  }
  // With few columns the variance may be tiny, and its inverse amplifies what float rounds away.
  const double tolerance = width < 4 ? 1e-3 : 1e-5;
  expect_near(r.y, y, tolerance);
  expect_near(r.dx, dx, tolerance);
  expect_near(r.dweight, dweight, tolerance);
  expect_near(r.dbias, dbias, tolerance);
}

class LayerNorm : public EveryTarget {};
INSTANTIATE_TEST_SUITE_P(Targets, LayerNorm, testing::ValuesIn(every_target()), target_name);

TEST_P(LayerNorm, matches_the_formulas) {
  for (std::int64_t width : {1, 2, 7, 8, 9, 17, 100, 128}) {
    for (std::int64_t rows : {1, 3, 130}) check(rows, width);
  }
}

TEST(LayerNormThreads, do_not_change_the_bits) {
  const Problem p{700, 100};
  same_with_any_threads([&] { return p.run(); });
}

}  // namespace
}  // namespace rookery::kernels
