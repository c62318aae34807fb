#include "tensor/kernels/update.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/error.h"
#include "tensor/kernels/internal/targets.h"
#include "tensor/kernels/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/kernels/update.cc"
// clang-format off
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace rookery::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Tag = hn::ScalableTag<float>;
using Vec = hn::Vec<Tag>;

// What a body sees of memory: whole vectors, or the first elements of one at the end of a span. Both take the same
// arithmetic, so an element's result does not depend on where the span was cut.
struct Whole {
  Vec load(const float* p) const { return hn::LoadU(Tag(), p); }
  void store(Vec v, float* p) const { hn::StoreU(v, Tag(), p); }
};
struct Tail {
  hn::Mask<Tag> mask;
  Vec load(const float* p) const { return hn::MaskedLoad(mask, Tag(), p); }
  void store(Vec v, float* p) const { hn::BlendedStore(v, mask, Tag(), p); }
};

template <typename Body>
HWY_INLINE void for_each_vector(std::size_t n, const Body& body) {
  const std::size_t lanes = hn::Lanes(Tag());
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) body(Whole{}, i);
  if (i < n) body(Tail{hn::FirstN(Tag(), n - i)}, i);
}

HWY_INLINE Vec set(float value) { return hn::Set(Tag(), value); }

void sgd_range(const SgdUpdate& u, float* x, const float* g, float* v, std::size_t n) {
  const Vec lr = set(-u.lr), momentum = set(u.momentum), decay = set(u.weight_decay), scale = set(u.gradient_scale);
  for_each_vector(n, [&](auto at, std::size_t i) HWY_ATTR {
    const Vec weight = at.load(x + i);
    const Vec gradient = hn::MulAdd(decay, weight, hn::Mul(scale, at.load(g + i)));
    const Vec velocity = hn::MulAdd(momentum, at.load(v + i), gradient);
    const Vec direction = u.nesterov ? hn::MulAdd(momentum, velocity, gradient) : velocity;
    at.store(velocity, v + i);
    at.store(hn::MulAdd(lr, direction, weight), x + i);
  });
}

// The constants of an Adam update, spread over vectors.
struct AdamVectors {
  explicit AdamVectors(const AdamUpdate& u)
      : decoupled(u.decoupled_decay),
        beta1(set(u.beta1)),
        beta2(set(u.beta2)),
        rest1(set(1 - u.beta1)),
        rest2(set(1 - u.beta2)),
        epsilon(set(u.epsilon)),
        scale(set(u.gradient_scale)),
        step(set(-u.lr / u.correction1)),
        inverse_root2(set(1 / std::sqrt(u.correction2))),
        shrink(set(1 - u.lr * u.weight_decay)),
        decay(set(u.weight_decay)) {}

  bool decoupled;
  Vec beta1, beta2, rest1, rest2, epsilon, scale, step, inverse_root2, shrink, decay;

  HWY_INLINE Vec gradient(Vec g, Vec x) const {
    const Vec scaled = hn::Mul(scale, g);
    return decoupled ? scaled : hn::MulAdd(decay, x, scaled);
  }
  HWY_INLINE Vec first_moment(Vec m, Vec g) const { return hn::MulAdd(rest1, g, hn::Mul(beta1, m)); }
  HWY_INLINE Vec second_moment(Vec v, Vec g) const { return hn::MulAdd(hn::Mul(rest2, g), g, hn::Mul(beta2, v)); }
  HWY_INLINE Vec moved(Vec x, Vec m, Vec v) const {
    const Vec base = decoupled ? hn::Mul(shrink, x) : x;
    const Vec denominator = hn::MulAdd(hn::Sqrt(v), inverse_root2, epsilon);
    return hn::Add(base, hn::Div(hn::Mul(step, m), denominator));
  }
};

void adam_range(const AdamUpdate& u, float* x, const float* g, float* m, float* v, std::size_t n) {
  const AdamVectors adam(u);
  for_each_vector(n, [&](auto at, std::size_t i) HWY_ATTR {
    const Vec weight = at.load(x + i);
    const Vec gradient = adam.gradient(at.load(g + i), weight);
    const Vec first = adam.first_moment(at.load(m + i), gradient);
    const Vec second = adam.second_moment(at.load(v + i), gradient);
    at.store(first, m + i);
    at.store(second, v + i);
    at.store(adam.moved(weight, first, second), x + i);
  });
}

void accumulated_adam_range(const AccumulatedAdamUpdate& u, float* x, const float* g, float* m, float* v, float* a,
                            std::size_t n) {
  const AdamVectors adam(u.adam);
  const Vec inverse_window = set(u.inverse_window);
  for_each_vector(n, [&](auto at, std::size_t i) HWY_ATTR {
    const Vec weight = at.load(x + i), old_first = at.load(m + i), old_second = at.load(v + i);
    const Vec gradient = adam.gradient(at.load(g + i), weight);
    const Vec mean = hn::MulAdd(inverse_window, gradient, at.load(a + i));
    const Vec first = adam.first_moment(old_first, gradient), second = adam.second_moment(old_second, gradient);
    at.store(adam.moved(weight, first, second), x + i);
    if (u.commit) {
      at.store(adam.first_moment(old_first, mean), m + i);
      at.store(adam.second_moment(old_second, mean), v + i);
      at.store(hn::Zero(Tag()), a + i);
    } else {
      at.store(mean, a + i);
    }
  });
}

struct LambVectors {
  explicit LambVectors(const AdamUpdate& u)
      : inverse1(set(1 / u.correction1)),
        inverse2(set(1 / u.correction2)),
        epsilon(set(u.epsilon)),
        decay(set(u.weight_decay)) {}
  Vec inverse1, inverse2, epsilon, decay;

  HWY_INLINE Vec direction(Vec x, Vec m, Vec v) const {
    const Vec denominator = hn::Add(hn::Sqrt(hn::Mul(v, inverse2)), epsilon);
    return hn::MulAdd(decay, x, hn::Div(hn::Mul(m, inverse1), denominator));
  }
};

LambNorms lamb_moments_range(const AdamUpdate& u, const float* x, const float* g, float* m, float* v, std::size_t n) {
  const AdamVectors adam(u);
  const LambVectors lamb(u);
  Vec x_squared = hn::Zero(Tag()), r_squared = hn::Zero(Tag());
  for_each_vector(n, [&](auto at, std::size_t i) HWY_ATTR {
    const Vec weight = at.load(x + i), gradient = hn::Mul(adam.scale, at.load(g + i));
    const Vec first = adam.first_moment(at.load(m + i), gradient);
    const Vec second = adam.second_moment(at.load(v + i), gradient);
    at.store(first, m + i);
    at.store(second, v + i);
    const Vec r = lamb.direction(weight, first, second);
    x_squared = hn::MulAdd(weight, weight, x_squared);
    r_squared = hn::MulAdd(r, r, r_squared);
  });
  return {hn::GetLane(hn::SumOfLanes(Tag(), x_squared)), hn::GetLane(hn::SumOfLanes(Tag(), r_squared))};
}

void lamb_apply_range(const AdamUpdate& u, float trust, float* x, const float* m, const float* v, std::size_t n) {
  const LambVectors lamb(u);
  const Vec step = set(-u.lr * trust);
  for_each_vector(n, [&](auto at, std::size_t i) HWY_ATTR {
    const Vec weight = at.load(x + i);
    at.store(hn::MulAdd(step, lamb.direction(weight, at.load(m + i), at.load(v + i)), weight), x + i);
  });
}

float sum_of_squares_range(const float* x, std::size_t n) {
  Vec sum = hn::Zero(Tag());
  for_each_vector(n, [&](auto at, std::size_t i) HWY_ATTR {
    const Vec value = at.load(x + i);
    sum = hn::MulAdd(value, value, sum);
  });
  return hn::GetLane(hn::SumOfLanes(Tag(), sum));
}

void add_scaled_range(float a, const float* x, float* y, std::size_t n) {
  const Vec factor = set(a);
  for_each_vector(
      n, [&](auto at, std::size_t i) HWY_ATTR { at.store(hn::MulAdd(factor, at.load(x + i), at.load(y + i)), y + i); });
}

}  // namespace rookery::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rookery::kernels {
namespace {

HWY_EXPORT(sgd_range);
HWY_EXPORT(adam_range);
HWY_EXPORT(accumulated_adam_range);
HWY_EXPORT(lamb_moments_range);
HWY_EXPORT(lamb_apply_range);
HWY_EXPORT(sum_of_squares_range);
HWY_EXPORT(add_scaled_range);

// Elements per thread below which starting another costs more than it saves.
constexpr std::int64_t kGrain = 1 << 15;
// Sums are taken in blocks of this many elements: short enough for float, and independent of the number of threads.
constexpr std::size_t kBlock = 1 << 12;

template <typename F>
void for_ranges(std::size_t n, F f) {
  parallel_for(static_cast<std::int64_t>(n), kGrain, [&](std::int64_t begin, std::int64_t end) {
    f(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
  });
}

template <typename T, typename F>
std::vector<T> for_blocks(std::size_t n, F f) {
  const std::size_t blocks = (n + kBlock - 1) / kBlock;
  std::vector<T> results(blocks);
  parallel_for(static_cast<std::int64_t>(blocks), kGrain / static_cast<std::int64_t>(kBlock),
               [&](std::int64_t begin, std::int64_t end) {
                 for (auto b = static_cast<std::size_t>(begin); b < static_cast<std::size_t>(end); ++b) {
                   results[b] = f(b * kBlock, std::min(kBlock, n - b * kBlock));
                 }
               });
  return results;
}

}  // namespace

void sgd(const SgdUpdate& u, std::span<float> x, std::span<const float> g, std::span<float> v) {
  ROOKERY_CHECK(g.size() == x.size() && v.size() == x.size());
  for_ranges(x.size(), [&](std::size_t i, std::size_t n) {
    HWY_DYNAMIC_DISPATCH(sgd_range)(u, x.data() + i, g.data() + i, v.data() + i, n);
  });
}

void adam(const AdamUpdate& u, std::span<float> x, std::span<const float> g, std::span<float> m, std::span<float> v) {
  ROOKERY_CHECK(g.size() == x.size() && m.size() == x.size() && v.size() == x.size());
  for_ranges(x.size(), [&](std::size_t i, std::size_t n) {
    HWY_DYNAMIC_DISPATCH(adam_range)(u, x.data() + i, g.data() + i, m.data() + i, v.data() + i, n);
  });
}

void accumulated_adam(const AccumulatedAdamUpdate& u, std::span<float> x, std::span<const float> g, std::span<float> m,
                      std::span<float> v, std::span<float> a) {
  ROOKERY_CHECK(g.size() == x.size() && m.size() == x.size() && v.size() == x.size() && a.size() == x.size());
  for_ranges(x.size(), [&](std::size_t i, std::size_t n) {
    HWY_DYNAMIC_DISPATCH(accumulated_adam_range)
    (u, x.data() + i, g.data() + i, m.data() + i, v.data() + i, a.data() + i, n);
  });
}

LambNorms lamb_moments(const AdamUpdate& u, std::span<const float> x, std::span<const float> g, std::span<float> m,
                       std::span<float> v) {
  ROOKERY_CHECK(g.size() == x.size() && m.size() == x.size() && v.size() == x.size());
  LambNorms total{0, 0};
  const auto parts = for_blocks<LambNorms>(x.size(), [&](std::size_t i, std::size_t n) {
    return HWY_DYNAMIC_DISPATCH(lamb_moments_range)(u, x.data() + i, g.data() + i, m.data() + i, v.data() + i, n);
  });
  for (const LambNorms& part : parts) {
    total.x_squared += part.x_squared;
    total.r_squared += part.r_squared;
  }
  return total;
}

void lamb_apply(const AdamUpdate& u, float trust, std::span<float> x, std::span<const float> m,
                std::span<const float> v) {
  ROOKERY_CHECK(m.size() == x.size() && v.size() == x.size());
  for_ranges(x.size(), [&](std::size_t i, std::size_t n) {
    HWY_DYNAMIC_DISPATCH(lamb_apply_range)(u, trust, x.data() + i, m.data() + i, v.data() + i, n);
  });
}

double sum_of_squares(std::span<const float> x) {
  double total = 0;
  const auto parts = for_blocks<float>(x.size(), [&](std::size_t i, std::size_t n) {
    return HWY_DYNAMIC_DISPATCH(sum_of_squares_range)(x.data() + i, n);
  });
  for (const float part : parts) total += part;
  return total;
}

void add_scaled(float a, std::span<const float> x, std::span<float> y) {
  ROOKERY_CHECK(x.size() == y.size());
  for_ranges(x.size(), [&](std::size_t i, std::size_t n) {
    HWY_DYNAMIC_DISPATCH(add_scaled_range)(a, x.data() + i, y.data() + i, n);
  });
}

}  // namespace rookery::kernels
#endif
