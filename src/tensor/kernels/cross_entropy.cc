#include "tensor/kernels/cross_entropy.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "tensor/kernels/internal/targets.h"
#include "tensor/kernels/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/kernels/cross_entropy.cc"
// clang-format off
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
#include "tensor/kernels/internal/vectors-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace rookery::kernels::HWY_NAMESPACE {

float maximum_of(std::int64_t n, const float* x) {
  Vector largest = hn::Set(kFloats, -std::numeric_limits<float>::infinity());
  std::int64_t j = 0;
  for (; j + kLanes <= n; j += kLanes) largest = hn::Max(largest, hn::LoadU(kFloats, x + j));
  float maximum = max_of_lanes(largest);
  for (; j < n; ++j) maximum = std::max(maximum, x[j]);
  return maximum;
}

// The sum of e = exp(x - shift); writes e to out if given. Strips are summed in float, their sums in double.
double sum_of_exponentials(std::int64_t n, const float* x, float shift, float* out) {
  constexpr std::int64_t kStrip = 1024;
  const auto s = hn::Set(kFloats, shift);
  double total = 0;
  for (std::int64_t begin = 0; begin < n; begin += kStrip) {
    Vector sum = hn::Zero(kFloats);
    for_each_vector(begin, std::min(n, begin + kStrip), [&](std::int64_t j, std::int64_t count) HWY_ATTR {
      auto e = exp(hn::Sub(load_some(x + j, count), s));
      if (count < kLanes) e = hn::IfThenElseZero(hn::FirstN(kFloats, static_cast<std::size_t>(count)), e);
      if (out) store_some(e, out + j, count);
      sum = hn::Add(sum, e);
    });
    total += static_cast<double>(sum_of_lanes(sum));
  }
  return total;
}

// The loss of one row; dlogits may be null, or logits.
double cross_entropy_row(std::int64_t classes, const float* logits, std::int64_t target, float scale, float* dlogits) {
  const float shift = maximum_of(classes, logits);
  const double logit = static_cast<double>(logits[target]);
  const double sum = sum_of_exponentials(classes, logits, shift, dlogits);
  if (dlogits) {
    const auto factor = hn::Set(kFloats, static_cast<float>(static_cast<double>(scale) / sum));
    for_each_vector(0, classes, [&](std::int64_t j, std::int64_t count) HWY_ATTR {
      store_some(hn::Mul(factor, load_some(dlogits + j, count)), dlogits + j, count);
    });
    dlogits[target] -= scale;
  }
  return std::log(sum) + static_cast<double>(shift) - logit;
}

}  // namespace rookery::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rookery::kernels {
HWY_EXPORT(maximum_of);
HWY_EXPORT(cross_entropy_row);

namespace {
std::int64_t rows_per_thread(std::int64_t classes) { return std::max<std::int64_t>(1, (1 << 13) / classes); }
}  // namespace

double softmax_cross_entropy(std::int64_t rows, std::int64_t classes, const float* logits, std::int64_t row_stride,
                             const std::int64_t* targets, float scale, float* dlogits) {
  std::vector<double> losses(static_cast<std::size_t>(rows));  // added in order, whoever computed them
  parallel_for(rows, rows_per_thread(classes), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      float* gradient = dlogits ? dlogits + r * row_stride : nullptr;
      if (targets[r] >= 0) {
        losses[static_cast<std::size_t>(r)] =
            HWY_DYNAMIC_DISPATCH(cross_entropy_row)(classes, logits + r * row_stride, targets[r], scale, gradient);
      } else if (gradient) {
        std::fill_n(gradient, classes, 0.0f);
      }
    }
  });
  return std::accumulate(losses.begin(), losses.end(), 0.0);
}

std::int64_t count_correct(std::int64_t rows, std::int64_t classes, const float* logits, std::int64_t row_stride,
                           const std::int64_t* targets) {
  std::vector<char> correct(static_cast<std::size_t>(rows));
  parallel_for(rows, rows_per_thread(classes), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const float* row = logits + r * row_stride;
      const std::int64_t target = targets[r];
      if (target < 0) continue;
      // The target holds the first maximum if what precedes it is smaller, and what follows is not larger.
      const float value = row[target];
      correct[static_cast<std::size_t>(r)] = HWY_DYNAMIC_DISPATCH(maximum_of)(target, row) < value &&
                                             HWY_DYNAMIC_DISPATCH(maximum_of)(classes - target, row + target) <= value;
    }
  });
  return std::count(correct.begin(), correct.end(), 1);
}

}  // namespace rookery::kernels
#endif
