// What several kernels need of vectors: partial loads and stores, a transpose, the exponential, GELU. Compiled once per
// instruction set, hence the guard that Highway toggles.
#if defined(ROOKERY_KERNELS_VECTORS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ROOKERY_KERNELS_VECTORS_INL_H
#undef ROOKERY_KERNELS_VECTORS_INL_H
#else
#define ROOKERY_KERNELS_VECTORS_INL_H
#endif

#include <cstdint>
#include <cstring>

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace rookery::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
using Vector = hn::Vec<Floats>;
inline constexpr Floats kFloats{};
inline constexpr std::int64_t kLanes = hn::MaxLanes(kFloats);

// The first `count` floats at p, zeros above. Reads nothing beyond them. Requires: 0 < count <= kLanes.
HWY_INLINE Vector load_some(const float* p, std::int64_t count) {
  if (count == kLanes) return hn::LoadU(kFloats, p);
  HWY_ALIGN float lanes[kLanes] = {};
  std::memcpy(lanes, p, static_cast<std::size_t>(count) * sizeof(float));
  return hn::Load(kFloats, lanes);
}

HWY_INLINE void store_some(Vector v, float* p, std::int64_t count) {
  if (count == kLanes) return hn::StoreU(v, kFloats, p);
  HWY_ALIGN float lanes[kLanes];
  hn::Store(v, kFloats, lanes);
  std::memcpy(p, lanes, static_cast<std::size_t>(count) * sizeof(float));
}

// Calls f(i, count) for consecutive runs of [begin, end): count is kLanes but for the last. f is inlined twice, so the
// full runs see a constant.
template <typename F>
HWY_INLINE void for_each_vector(std::int64_t begin, std::int64_t end, const F& f) {
  std::int64_t i = begin;
  for (; i + kLanes <= end; i += kLanes) f(i, kLanes);
  if (i < end) f(i, end - i);
}

HWY_INLINE float sum_of_lanes(Vector v) { return hn::GetLane(hn::SumOfLanes(kFloats, v)); }
HWY_INLINE float max_of_lanes(Vector v) { return hn::GetLane(hn::MaxOfLanes(kFloats, v)); }

// The sum of f(i, count) over the runs of [0, n), as for for_each_vector; f leaves zeros in the lanes from count on.
// Four sums in turn, so that one addition need not wait for the last.
template <typename F>
HWY_INLINE float sum_over(std::int64_t n, const F& f) {
  Vector s0 = hn::Zero(kFloats), s1 = s0, s2 = s0, s3 = s0;
  std::int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    s0 = hn::Add(s0, f(i, kLanes));
    s1 = hn::Add(s1, f(i + kLanes, kLanes));
    s2 = hn::Add(s2, f(i + 2 * kLanes, kLanes));
    s3 = hn::Add(s3, f(i + 3 * kLanes, kLanes));
  }
  for_each_vector(i, n, [&](std::int64_t j, std::int64_t count) HWY_ATTR { s0 = hn::Add(s0, f(j, count)); });
  return sum_of_lanes(hn::Add(hn::Add(s0, s1), hn::Add(s2, s3)));
}

#if HWY_TARGET != HWY_SCALAR

// Four floats from each of Lanes(d) / 4 rows that lie 4 * stride apart: block b of the vector is p[4 * b * stride
// ..+4].
template <class D>
HWY_INLINE hn::Vec<D> load_blocks(D d, const float* p, std::int64_t stride) {
  if constexpr (hn::MaxLanes(D()) <= 4) {
    return hn::LoadU(d, p);
  } else {
    const hn::Half<D> half;
    const std::int64_t rows = hn::MaxLanes(half);
    return hn::Combine(d, load_blocks(half, p + rows * stride, stride), load_blocks(half, p, stride));
  }
}

// The transpose of Lanes(d) rows of four floats: lane r of v[c] is p[r * stride + c].
template <class D>
HWY_INLINE void load_transposed(D d, const float* p, std::int64_t stride, hn::Vec<D> v[4]) {
  const hn::Repartition<double, D> pairs;
  const auto r0 = load_blocks(d, p, stride), r1 = load_blocks(d, p + stride, stride);
  const auto r2 = load_blocks(d, p + 2 * stride, stride), r3 = load_blocks(d, p + 3 * stride, stride);
  const auto low01 = hn::BitCast(pairs, hn::InterleaveLower(d, r0, r1));
  const auto low23 = hn::BitCast(pairs, hn::InterleaveLower(d, r2, r3));
  const auto high01 = hn::BitCast(pairs, hn::InterleaveUpper(d, r0, r1));
  const auto high23 = hn::BitCast(pairs, hn::InterleaveUpper(d, r2, r3));
  v[0] = hn::BitCast(d, hn::InterleaveLower(pairs, low01, low23));
  v[1] = hn::BitCast(d, hn::InterleaveUpper(pairs, low01, low23));
  v[2] = hn::BitCast(d, hn::InterleaveLower(pairs, high01, high23));
  v[3] = hn::BitCast(d, hn::InterleaveUpper(pairs, high01, high23));
}

#else

template <class D>
HWY_INLINE void load_transposed(D d, const float* p, std::int64_t, hn::Vec<D> v[4]) {
  for (int c = 0; c < 4; ++c) v[c] = hn::LoadU(d, p + c);
}

#endif

// to[c * to_stride + r] = from[r * from_stride + c] for rows x columns of `from`, with zeros for r in [rows, padded).
HWY_INLINE void transpose(std::int64_t rows, std::int64_t columns, const float* from, std::int64_t from_stride,
                          float* to, std::int64_t to_stride, std::int64_t padded) {
  std::int64_t r = 0;
  for (; r + kLanes <= rows; r += kLanes) {
    std::int64_t c = 0;
    for (; c + 4 <= columns; c += 4) {
      Vector v[4];
      load_transposed(kFloats, from + r * from_stride + c, from_stride, v);
      for (std::int64_t i = 0; i < 4; ++i) hn::StoreU(v[i], kFloats, to + (c + i) * to_stride + r);
    }
    for (; c < columns; ++c) {
      for (std::int64_t i = r; i < r + kLanes; ++i) to[c * to_stride + i] = from[i * from_stride + c];
    }
  }
  for (; r < padded; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) to[c * to_stride + r] = r < rows ? from[r * from_stride + c] : 0.0f;
  }
}

// The larger of bound and x, or x if that is not a number: a model that diverges must show it.
HWY_INLINE Vector at_least(Vector bound, Vector x) {
#if HWY_TARGET == HWY_SCALAR
  return hn::IfThenElse(hn::Lt(x, bound), bound, x);
#else
  return hn::Max(bound, x);  // in this order: x86 returns the second operand if either is not a number
#endif
}

// 2^x with a relative error below 2e-7. Requires: x < 127; below -126 the result stays at 2^-126. Not-a-number stays
// so.
HWY_INLINE Vector exp2(Vector x) {
  const hn::RebindToSigned<Floats> ints;
  const auto set = [](float value) HWY_ATTR { return hn::Set(kFloats, value); };
  x = at_least(set(-126.0f), x);

  // x = n + r. Adding 1.5 · 2^23 rounds to an integer, and leaves n in the low bits of the sum.
  const auto magic = set(12582912.0f);
  const auto shifted = hn::Add(x, magic);
  const auto r = hn::Sub(x, hn::Sub(shifted, magic));
  auto p = set(1.535336188e-4f);
  p = hn::MulAdd(p, r, set(1.339887440e-3f));
  p = hn::MulAdd(p, r, set(9.618437358e-3f));
  p = hn::MulAdd(p, r, set(5.550332471e-2f));
  p = hn::MulAdd(p, r, set(2.402264791e-1f));
  p = hn::MulAdd(p, r, set(6.931472029e-1f));
  p = hn::MulAdd(p, r, set(1.0f));
  const auto exponent = hn::ShiftLeft<23>(hn::BitCast(ints, shifted));
  return hn::BitCast(kFloats, hn::Add(hn::BitCast(ints, p), exponent));
}

inline constexpr float kLog2E = 1.44269504f;

// e^x. The relative error grows to 6e-8 · |x|, which is what rounding did to an x of that size before.
HWY_INLINE Vector exp(Vector x) { return exp2(hn::Mul(x, hn::Set(kFloats, kLog2E))); }

// y = x Φ(x) and its derivative Φ(x) + x φ(x). With a = |x| and e = exp(-x²/2), Φ(-a) = e · g(a), where g is fitted by
// a polynomial in t = 1 / (1 + 0.28 a) that keeps max(1, a) · |error of Φ| below 1.2e-8.
HWY_INLINE void gelu(Vector x, Vector& y, Vector& derivative) {
  const auto set = [](float value) HWY_ATTR { return hn::Set(kFloats, value); };
  const auto e = exp(hn::Mul(hn::Mul(x, x), set(-0.5f)));
  const auto t = hn::Div(set(1.0f), hn::MulAdd(hn::Abs(x), set(0.28f), set(1.0f)));
  auto g = set(-0.1063288035f);
  g = hn::MulAdd(g, t, set(0.3920680095f));
  g = hn::MulAdd(g, t, set(-0.2406710177f));
  g = hn::MulAdd(g, t, set(0.2719735676f));
  g = hn::MulAdd(g, t, set(0.0662290289f));
  g = hn::MulAdd(g, t, set(0.1167292041f));
  const auto below = hn::Mul(hn::Mul(g, t), e);  // Φ(-|x|)
  const auto phi = hn::IfThenElse(hn::Lt(x, hn::Zero(kFloats)), below, hn::Sub(set(1.0f), below));
  y = hn::Mul(x, phi);
  derivative = hn::MulAdd(hn::Mul(x, set(0.39894228f)), e, phi);
}

}  // namespace rookery::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
