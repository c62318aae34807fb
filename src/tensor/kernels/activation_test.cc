#include "tensor/kernels/activation.h"

#include <gtest/gtest.h>

#include "tensor/kernels/internal/targets.h"
#include "tensor/kernels/internal/test_support.h"

namespace rookery::kernels {
namespace {

class Elementwise : public EveryTarget {};
INSTANTIATE_TEST_SUITE_P(Targets, Elementwise, testing::ValuesIn(every_target()), target_name);

TEST_P(Elementwise, multiply_and_relu_backward_in_place) {
  for (std::int64_t n : {1, 7, 8, 9, 17, 100}) {
    const auto a = random_floats(n, 1), b = random_floats(n, 2);
    std::vector<float> product = a, gradient = b;
    multiply(n, product.data(), b.data(), product.data());
    relu_backward(n, a.data(), gradient.data(), gradient.data());
    for (std::int64_t i = 0; i < n; ++i) {
      EXPECT_EQ(product[i], a[i] * b[i]);
      EXPECT_EQ(gradient[i], a[i] > 0 ? b[i] : 0);
    }
  }
}

TEST_P(Elementwise, gelu_is_exact_to_3e_7) {
  std::vector<float> x;
  for (float value = -12; value < 12; value += 1.0f / 1024) x.push_back(value);
  std::vector<float> y(x.size()), derivative(x.size());
  gelu_forward(static_cast<std::int64_t>(x.size()), x.data(), y.data(), derivative.data());
  std::vector<double> expected, slope;
  for (double value : x) {
    const double phi = 0.5 * std::erfc(-value / std::sqrt(2.0));
    expected.push_back(value * phi);
    slope.push_back(phi + value * std::exp(-value * value / 2) / std::sqrt(2 * M_PI));
  }
  expect_near(y, expected, 3e-7);
  expect_near(derivative, slope, 3e-7);
}

TEST_P(Elementwise, gelu_passes_on_what_is_not_a_number) {
  const float x[2] = {std::nanf(""), 1};
  float y[2], derivative[2];
  gelu_forward(2, x, y, derivative);
  EXPECT_TRUE(std::isnan(y[0]) && std::isnan(derivative[0]));
  EXPECT_FALSE(std::isnan(y[1]));
}

TEST_P(Elementwise, column_sums_add_to_what_is_there) {
  for (std::int64_t m : {1, 3, 4, 9}) {
    for (std::int64_t n : {1, 7, 8, 17, 2100}) {
      const auto x = random_floats(m * n, 1), before = random_floats(n, 2);
      auto sums = before;
      column_sums(m, n, x.data(), sums.data());
      std::vector<double> expected(before.begin(), before.end());
      for (std::int64_t i = 0; i < m * n; ++i) expected[i % n] += x[i];
      expect_near(sums, expected, 1e-6);
    }
  }
}

TEST(ElementwiseThreads, do_not_change_the_bits) {
  const std::int64_t m = 2000, n = 100;
  const auto x = random_floats(m * n, 1);
  same_with_any_threads([&] {
    std::vector<float> sums(n);
    column_sums(m, n, x.data(), sums.data());
    return sums;
  });
  same_with_any_threads([&] {
    std::vector<float> y(x.size());
    gelu_forward(m * n, x.data(), y.data(), nullptr);
    multiply(m * n, y.data(), x.data(), y.data());
    return y;
  });
}

}  // namespace
}  // namespace rookery::kernels
