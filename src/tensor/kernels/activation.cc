#include "tensor/kernels/activation.h"

#include <algorithm>

#include "tensor/kernels/internal/targets.h"
#include "tensor/kernels/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/kernels/activation.cc"
// clang-format off
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
#include "tensor/kernels/internal/vectors-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace rookery::kernels::HWY_NAMESPACE {

void multiply_range(std::int64_t n, const float* a, const float* b, float* out) {
  for_each_vector(0, n, [&](std::int64_t i, std::int64_t count) HWY_ATTR {
    store_some(hn::Mul(load_some(a + i, count), load_some(b + i, count)), out + i, count);
  });
}

void gelu_range(std::int64_t n, const float* x, float* y, float* derivative) {
  for_each_vector(0, n, [&](std::int64_t i, std::int64_t count) HWY_ATTR {
    Vector value, slope;
    gelu(load_some(x + i, count), value, slope);
    store_some(value, y + i, count);
    if (derivative) store_some(slope, derivative + i, count);
  });
}

void relu_backward_range(std::int64_t n, const float* y, const float* dy, float* out) {
  for_each_vector(0, n, [&](std::int64_t i, std::int64_t count) HWY_ATTR {
    const auto positive = hn::Gt(load_some(y + i, count), hn::Zero(kFloats));
    store_some(hn::IfThenElseZero(positive, load_some(dy + i, count)), out + i, count);
  });
}

// Columns begin .. end. Four rows at a time, so that the sums are loaded and stored once for four additions.
void column_sums_range(std::int64_t m, std::int64_t n, const float* x, float* accumulated, std::int64_t begin,
                       std::int64_t end) {
  std::int64_t i = 0;
  for (; i + 4 <= m; i += 4) {
    const float *x0 = x + i * n, *x1 = x0 + n, *x2 = x1 + n, *x3 = x2 + n;
    for_each_vector(begin, end, [&](std::int64_t j, std::int64_t count) HWY_ATTR {
      const auto first = hn::Add(load_some(x0 + j, count), load_some(x1 + j, count));
      const auto second = hn::Add(load_some(x2 + j, count), load_some(x3 + j, count));
      store_some(hn::Add(load_some(accumulated + j, count), hn::Add(first, second)), accumulated + j, count);
    });
  }
  for (; i < m; ++i) {
    for_each_vector(begin, end, [&](std::int64_t j, std::int64_t count) HWY_ATTR {
      store_some(hn::Add(load_some(accumulated + j, count), load_some(x + i * n + j, count)), accumulated + j, count);
    });
  }
}

}  // namespace rookery::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rookery::kernels {
HWY_EXPORT(multiply_range);
HWY_EXPORT(gelu_range);
HWY_EXPORT(relu_backward_range);
HWY_EXPORT(column_sums_range);

namespace {
constexpr std::int64_t kGrain = 1 << 15;  // floats that are worth a thread
}

void multiply(std::int64_t n, const float* a, const float* b, float* out) {
  parallel_for(n, kGrain, [&](std::int64_t begin, std::int64_t end) {
    HWY_DYNAMIC_DISPATCH(multiply_range)(end - begin, a + begin, b + begin, out + begin);
  });
}

void gelu_forward(std::int64_t n, const float* x, float* y, float* derivative) {
  parallel_for(n, kGrain / 4, [&](std::int64_t begin, std::int64_t end) {
    HWY_DYNAMIC_DISPATCH(gelu_range)(end - begin, x + begin, y + begin, derivative ? derivative + begin : nullptr);
  });
}

void relu_backward(std::int64_t n, const float* y, const float* dy, float* out) {
  parallel_for(n, kGrain, [&](std::int64_t begin, std::int64_t end) {
    HWY_DYNAMIC_DISPATCH(relu_backward_range)(end - begin, y + begin, dy + begin, out + begin);
  });
}

void column_sums(std::int64_t m, std::int64_t n, const float* x, float* accumulated) {
  // Threads share columns, by whole cache lines; strips of columns keep the sums in the first-level cache.
  constexpr std::int64_t kLine = 16, kStrip = 2048;
  const std::int64_t grain = std::max(kLine, kGrain / std::max<std::int64_t>(1, m) / kLine * kLine);
  parallel_for(n, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t j = begin; j < end; j += kStrip) {
      HWY_DYNAMIC_DISPATCH(column_sums_range)(m, n, x, accumulated, j, std::min(end, j + kStrip));
    }
  });
}

}  // namespace rookery::kernels
#endif
