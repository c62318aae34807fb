#include "tensor/kernels/layer_norm.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "tensor/kernels/internal/targets.h"
#include "tensor/kernels/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/kernels/layer_norm.cc"
// clang-format off
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
#include "tensor/kernels/internal/vectors-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace rookery::kernels::HWY_NAMESPACE {

void layer_norm_forward_rows(std::int64_t rows, std::int64_t width, const float* x, const float* weight,
                             const float* bias, float epsilon, float* y, float* statistics) {
  const float inverse_width = 1.0f / static_cast<float>(width);
  for (std::int64_t r = 0; r < rows; ++r, x += width, y += width, statistics += 2) {
    const float mean = inverse_width * sum_over(width, [&](std::int64_t j, std::int64_t count)
                                                           HWY_ATTR { return load_some(x + j, count); });
    const auto center = hn::Set(kFloats, mean);
    const float variance = inverse_width * sum_over(width, [&](std::int64_t j, std::int64_t count) HWY_ATTR {
                             const auto d = hn::Sub(load_some(x + j, count), center);
                             const auto square = hn::Mul(d, d);
                             if (count == kLanes) return square;
                             return hn::IfThenElseZero(hn::FirstN(kFloats, static_cast<std::size_t>(count)), square);
                           });
    const float scale = 1.0f / std::sqrt(variance + epsilon);

    const auto factor = hn::Set(kFloats, scale);
    for_each_vector(0, width, [&](std::int64_t j, std::int64_t count) HWY_ATTR {
      const auto normal = hn::Mul(hn::Sub(load_some(x + j, count), center), factor);
      store_some(hn::MulAdd(normal, load_some(weight + j, count), load_some(bias + j, count)), y + j, count);
    });
    statistics[0] = mean;
    statistics[1] = scale;
  }
}

// With n = (x - mean) · scale and g = dy · weight:
//   dx = scale · (g - mean(g) - n · mean(g · n)),  dweight += dy · n,  dbias += dy.
void layer_norm_backward_rows(std::int64_t rows, std::int64_t width, const float* x, const float* weight,
                              const float* statistics, const float* dy, float* dx, float* dweight, float* dbias) {
  const float inverse_width = 1.0f / static_cast<float>(width);
  for (std::int64_t r = 0; r < rows; ++r, x += width, dy += width, dx += width, statistics += 2) {
    const auto center = hn::Set(kFloats, statistics[0]), scale = hn::Set(kFloats, statistics[1]);
    Vector sum = hn::Zero(kFloats), sum_normal = hn::Zero(kFloats);
    for_each_vector(0, width, [&](std::int64_t j, std::int64_t count) HWY_ATTR {
      const auto normal = hn::Mul(hn::Sub(load_some(x + j, count), center), scale);
      const auto d = load_some(dy + j, count);
      store_some(hn::MulAdd(d, normal, load_some(dweight + j, count)), dweight + j, count);
      store_some(hn::Add(d, load_some(dbias + j, count)), dbias + j, count);
      const auto g = hn::Mul(d, load_some(weight + j, count));
      sum = hn::Add(sum, g);
      sum_normal = hn::MulAdd(g, normal, sum_normal);
    });
    const auto mean = hn::Set(kFloats, sum_of_lanes(sum) * inverse_width);
    const auto mean_normal = hn::Set(kFloats, sum_of_lanes(sum_normal) * inverse_width);
    for_each_vector(0, width, [&](std::int64_t j, std::int64_t count) HWY_ATTR {
      const auto normal = hn::Mul(hn::Sub(load_some(x + j, count), center), scale);
      const auto g = hn::Mul(load_some(dy + j, count), load_some(weight + j, count));
      store_some(hn::Mul(scale, hn::NegMulAdd(normal, mean_normal, hn::Sub(g, mean))), dx + j, count);
    });
  }
}

}  // namespace rookery::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rookery::kernels {
HWY_EXPORT(layer_norm_forward_rows);
HWY_EXPORT(layer_norm_backward_rows);

void layer_norm_forward(std::int64_t rows, std::int64_t width, const float* x, const float* weight, const float* bias,
                        float epsilon, float* y, float* statistics) {
  const std::int64_t grain = std::max<std::int64_t>(1, (1 << 14) / width);
  parallel_for(rows, grain, [&](std::int64_t begin, std::int64_t end) {
    HWY_DYNAMIC_DISPATCH(layer_norm_forward_rows)
    (end - begin, width, x + begin * width, weight, bias, epsilon, y + begin * width, statistics + 2 * begin);
  });
}

void layer_norm_backward(std::int64_t rows, std::int64_t width, const float* x, const float* weight,
                         const float* statistics, const float* dy, float* dx, float* dweight, float* dbias) {
  constexpr std::int64_t kBlock = 128;  // rows
  const std::int64_t blocks = (rows + kBlock - 1) / kBlock;
  std::vector<float> partial(static_cast<std::size_t>(blocks * 2 * width));  // (blocks, 2, width): dweight, dbias
  parallel_for(rows, kBlock, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; r += kBlock) {
      float* sums = partial.data() + r / kBlock * 2 * width;
      HWY_DYNAMIC_DISPATCH(layer_norm_backward_rows)
      (std::min(kBlock, end - r), width, x + r * width, weight, statistics + 2 * r, dy + r * width, dx + r * width,
       sums, sums + width);
    }
  });
  for (std::int64_t b = 0; b < blocks; ++b) {
    const float* sums = partial.data() + b * 2 * width;
    for (std::int64_t j = 0; j < width; ++j) dweight[j] += sums[j];
    for (std::int64_t j = 0; j < width; ++j) dbias[j] += sums[width + j];
  }
}

}  // namespace rookery::kernels
#endif
