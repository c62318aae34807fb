#include "tensor/kernels/embedding.h"

#include <algorithm>

#include "tensor/kernels/internal/targets.h"
#include "tensor/kernels/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/kernels/embedding.cc"
// clang-format off
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
#include "tensor/kernels/internal/vectors-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace rookery::kernels::HWY_NAMESPACE {

void add_rows(std::int64_t width, const float* a, const float* b, float* out) {
  for_each_vector(0, width, [&](std::int64_t j, std::int64_t count) HWY_ATTR {
    store_some(hn::Add(load_some(a + j, count), load_some(b + j, count)), out + j, count);
  });
}

}  // namespace rookery::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rookery::kernels {
HWY_EXPORT(add_rows);

void embedding_forward(std::int64_t n, const std::int64_t* ids, std::int64_t width, const float* table,
                       const float* positions, std::int64_t period, float* out) {
  const std::int64_t grain = std::max<std::int64_t>(1, (1 << 14) / width);
  parallel_for(n, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const float* row = table + ids[i] * width;
      if (positions) {
        HWY_DYNAMIC_DISPATCH(add_rows)(width, row, positions + i % period * width, out + i * width);
      } else {
        std::copy_n(row, width, out + i * width);
      }
    }
  });
}

void embedding_backward(std::int64_t n, const std::int64_t* ids, std::int64_t width, const float* dout, float* dtable,
                        float* dpositions, std::int64_t period) {
  constexpr std::int64_t kLine = 16;  // floats: threads share columns, by whole cache lines
  const std::int64_t grain = std::max(kLine, (1 << 14) / std::max<std::int64_t>(1, n) / kLine * kLine);
  parallel_for(width, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = 0; i < n; ++i) {
      const float* gradient = dout + i * width + begin;
      const auto add_to = [&](float* row) {
        HWY_DYNAMIC_DISPATCH(add_rows)(end - begin, row + begin, gradient, row + begin);
      };
      if (dtable) add_to(dtable + ids[i] * width);
      if (dpositions) add_to(dpositions + i % period * width);
    }
  });
}

}  // namespace rookery::kernels
#endif
