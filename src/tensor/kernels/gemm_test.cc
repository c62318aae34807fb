#include "tensor/kernels/gemm.h"

#include <algorithm>
#include <tuple>

#include <gtest/gtest.h>

#include "tensor/kernels/internal/targets.h"
#include "tensor/kernels/internal/test_support.h"

namespace rookery::kernels {
namespace {

enum class Order { kRows, kColumns };  // which index is contiguous

struct Problem {
  std::int64_t m, n, k;
  Order a = Order::kRows, b = Order::kRows;
  bool accumulate = false;
  Activation activation = Activation::kNone;
  bool bias = false, derivative = false, residual = false;
  std::int64_t extra = 0;  // ldc - n
};

Matrix stored(const std::vector<float>& data, std::int64_t rows, std::int64_t columns, Order order) {
  return order == Order::kRows ? Matrix{data.data(), columns, 1} : Matrix{data.data(), 1, rows};
}

double at(const Matrix& m, std::int64_t i, std::int64_t j) { return m.data[i * m.row_stride + j * m.column_stride]; }

std::pair<double, double> activate(Activation activation, double z) {
  switch (activation) {
    case Activation::kNone:
      return {z, 1};
    case Activation::kRelu:
      return {std::max(z, 0.0), z > 0 ? 1 : 0};
    case Activation::kGelu:
      break;
  }
  const double phi = 0.5 * std::erfc(-z / std::sqrt(2.0));
  return {z * phi, phi + z * std::exp(-z * z / 2) / std::sqrt(2 * M_PI)};
}

// Runs gemm, compares with a loop in double, and returns C followed by the derivative.
std::vector<float> check(const Problem& p) {
  const auto a_data = random_floats(p.m * p.k, 1), b_data = random_floats(p.k * p.n, 2);
  const auto bias = random_floats(p.n, 3), residual = random_floats(p.m * p.n, 4);
  const Matrix a = stored(a_data, p.m, p.k, p.a), b = stored(b_data, p.k, p.n, p.b);
  const std::int64_t ldc = p.n + p.extra;
  const auto before = random_floats(p.m * ldc, 5);
  auto c = before;
  std::vector<float> derivative(p.derivative ? c.size() / ldc * p.n : 0);

  Epilogue epilogue;
  epilogue.activation = p.activation;
  if (p.bias) epilogue.bias = bias.data();
  if (p.derivative) epilogue.derivative = derivative.data();
  if (p.residual) epilogue.residual = residual.data();
  gemm(p.m, p.n, p.k, a, b, c.data(), ldc, p.accumulate, epilogue);

  std::vector<double> expected(before.begin(), before.end()), expected_derivative(derivative.size());
  for (std::int64_t i = 0; i < p.m; ++i) {
    for (std::int64_t j = 0; j < p.n; ++j) {
      double z = p.accumulate ? before[i * ldc + j] : 0;
      for (std::int64_t k = 0; k < p.k; ++k) z += at(a, i, k) * at(b, k, j);
      const auto [y, slope] = activate(p.activation, z + (p.bias ? bias[j] : 0));
      expected[i * ldc + j] = y + (p.residual ? residual[i * p.n + j] : 0);
      // At a kink within rounding of zero either side is right.
      const bool kink = p.activation == Activation::kRelu && std::abs(z + (p.bias ? bias[j] : 0)) < 1e-5;
      if (p.derivative) expected_derivative[i * p.n + j] = kink ? derivative[i * p.n + j] : slope;
    }
  }
  const double tolerance = 1e-6 * (3 + std::sqrt(static_cast<double>(p.k)));
  expect_near(c, expected, tolerance);
  expect_near(derivative, expected_derivative, tolerance);
  c.insert(c.end(), derivative.begin(), derivative.end());
  return c;
}

class Gemm : public EveryTarget {};
INSTANTIATE_TEST_SUITE_P(Targets, Gemm, testing::ValuesIn(every_target()), target_name);

TEST_P(Gemm, multiplies_at_edge_sizes_in_every_order) {
  const std::int64_t sizes[] = {1, 2, 5, 6, 7, 16, 17, 33};
  for (std::int64_t m : sizes) {
    for (std::int64_t n : sizes) {
      for (std::int64_t k : {std::int64_t{1}, std::int64_t{3}, std::int64_t{9}, m}) {
        for (Order a : {Order::kRows, Order::kColumns}) {
          for (Order b : {Order::kRows, Order::kColumns}) {
            SCOPED_TRACE(testing::Message() << m << " " << n << " " << k);
            check({.m = m, .n = n, .k = k, .a = a, .b = b});
            check({.m = m, .n = n, .k = k, .a = a, .b = b, .accumulate = true, .extra = 3});
            if (HasFatalFailure()) return;
          }
        }
      }
    }
  }
}

TEST_P(Gemm, applies_every_epilogue) {
  for (Activation activation : {Activation::kNone, Activation::kRelu, Activation::kGelu}) {
    for (int mask = 0; mask < 16; ++mask) {
      SCOPED_TRACE(testing::Message() << static_cast<int>(activation) << " " << mask);
      check({.m = 13,
             .n = 37,
             .k = 10,
             .accumulate = (mask & 8) != 0,
             .activation = activation,
             .bias = (mask & 1) != 0,
             .derivative = (mask & 2) != 0,
             .residual = (mask & 4) != 0});
    }
  }
}

TEST_P(Gemm, crosses_the_borders_of_blocks) {
  check({.m = 200,
         .n = 50,
         .k = 800,
         .b = Order::kColumns,
         .activation = Activation::kGelu,
         .bias = true,
         .derivative = true});
  check({.m = 100, .n = 30, .k = 1000, .a = Order::kColumns, .accumulate = true});
  check({.m = 9, .n = 1100, .k = 400, .b = Order::kColumns, .residual = true});
  check({.m = 7, .n = 40, .k = 512});  // rows a power of two apart
}

TEST_P(Gemm, takes_both_strides_from_larger_than_one) {
  const auto data = random_floats(1000, 6);
  const Matrix a{data.data(), 20, 2}, b{data.data(), 3, 50};
  std::vector<float> c(7 * 9);
  gemm(7, 9, 8, a, b, c.data(), 9, false);
  std::vector<double> expected(c.size());
  for (int i = 0; i < 7; ++i) {
    for (int j = 0; j < 9; ++j) {
      for (int k = 0; k < 8; ++k) expected[i * 9 + j] += at(a, i, k) * at(b, k, j);
    }
  }
  expect_near(c, expected, 1e-6);
}

TEST_P(Gemm, an_empty_product_leaves_the_epilogue) {
  check({.m = 5, .n = 20, .k = 0, .bias = true, .residual = true});
  check({.m = 5, .n = 20, .k = 0, .accumulate = true, .activation = Activation::kGelu});
}

TEST(GemmThreads, do_not_change_the_bits) {
  same_with_any_threads([] { return check({.m = 301, .n = 77, .k = 500, .a = Order::kColumns, .derivative = true}); });
  same_with_any_threads([] {
    return check({.m = 70,
                  .n = 333,
                  .k = 500,
                  .b = Order::kColumns,
                  .activation = Activation::kGelu,
                  .bias = true,
                  .derivative = true,
                  .residual = true});
  });
}

}  // namespace
}  // namespace rookery::kernels
