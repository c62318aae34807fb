#pragma once

#include <cstdint>

namespace rookery::kernels {

// A matrix of which element (i, j) is data[i * row_stride + j * column_stride]. A transpose is an exchange of strides.
struct Matrix {
  const float* data;
  std::int64_t row_stride;
  std::int64_t column_stride;
};

enum class Activation { kNone, kRelu, kGelu };

// What happens to a block of C = A·B while it is still in cache:
//   z = C + bias;  derivative = activation'(z);  C = activation(z) + residual.
struct Epilogue {
  const float* bias = nullptr;                // (N), added to every row
  Activation activation = Activation::kNone;  // gelu is the exact form with erf
  float* derivative = nullptr;                // (M, N) contiguous; receives activation'(z) if given
  const float* residual = nullptr;            // (M, N) contiguous, added last; must not overlap C
};

// C (M, N), rows ldc floats apart: C = A·B, or C += A·B if `accumulate`; then the epilogue.
//
// Blocked over K, N and M; a block of B is packed (at most 2 MiB of scratch a thread, whatever the sizes), A is packed
// only where its strides need it. Threads share M or N, never K: the bits do not depend on their number.
// Requires: A (M, K), B (K, N); C overlaps neither. K = 0 counts as A·B = 0.
void gemm(std::int64_t m, std::int64_t n, std::int64_t k, Matrix a, Matrix b, float* c, std::int64_t ldc,
          bool accumulate, const Epilogue& epilogue = {});

}  // namespace rookery::kernels
