#pragma once

#include <cstdint>

namespace rookery::kernels {

// Layer normalisation of each row of x (rows, width):
//   y = (x - mean) / sqrt(variance + epsilon) * weight + bias
// with the biased variance. weight, bias: (width). statistics (rows, 2) receives (mean, 1 / sqrt(variance + epsilon)),
// which is all that the backward pass needs besides x. y may be x.
void layer_norm_forward(std::int64_t rows, std::int64_t width, const float* x, const float* weight, const float* bias,
                        float epsilon, float* y, float* statistics);

// dx (rows, width) is written, dweight and dbias (width) are added to. dx may be dy. Sums over rows are formed per
// block of rows and added in the order of the blocks, so the bits do not depend on the number of threads.
void layer_norm_backward(std::int64_t rows, std::int64_t width, const float* x, const float* weight,
                         const float* statistics, const float* dy, float* dx, float* dweight, float* dbias);

}  // namespace rookery::kernels
