#pragma once

#include <cstdint>

namespace rookery::kernels {

// Elementwise helpers. `out` may be any of the inputs. The bits do not depend on the number of threads.

// out = a * b. The backward pass of an activation whose derivative the forward pass stored.
void multiply(std::int64_t n, const float* a, const float* b, float* out);

// y = gelu(x) = x Φ(x), exact form with erf (absolute error below 3e-7 · max(1, |x|)); derivative = gelu'(x) if given.
void gelu_forward(std::int64_t n, const float* x, float* y, float* derivative);

// out = dy where y > 0, else 0: the gradient of relu from its output y.
void relu_backward(std::int64_t n, const float* y, const float* dy, float* out);

// accumulated (n) += the sums of the columns of x (m, n). The gradient of a bias.
void column_sums(std::int64_t m, std::int64_t n, const float* x, float* accumulated);

}  // namespace rookery::kernels
