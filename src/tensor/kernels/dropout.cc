#include "tensor/kernels/dropout.h"

#include "base/error.h"
#include "tensor/kernels/internal/targets.h"
#include "tensor/kernels/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/kernels/dropout.cc"
// clang-format off
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
#include "tensor/kernels/internal/vectors-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace rookery::kernels::HWY_NAMESPACE {

// A 32-bit finaliser of two multiplications (the constants have nearly no bias in how input bits change output bits).
// The first half of the key moves the counter, the second enters between the rounds, so that two keys never give the
// same stream shifted.
void dropout_range(std::int64_t begin, std::int64_t end, const float* x, float keep_probability, std::uint32_t first,
                   std::uint32_t second, float* out) {
  const hn::RebindToUnsigned<Floats> words;
  const auto scale = hn::Set(kFloats, 1.0f / keep_probability);
  const auto bound = hn::Set(kFloats, keep_probability * 16777216.0f);  // 2^24
  const hn::RebindToSigned<Floats> ints;
  for_each_vector(begin, end, [&](std::int64_t i, std::int64_t count) HWY_ATTR {
    auto h = hn::Iota(words, static_cast<std::uint32_t>(i));
    h = hn::Add(hn::Mul(h, hn::Set(words, 0x9E3779B9u)), hn::Set(words, first));
    h = hn::Mul(hn::Xor(h, hn::ShiftRight<16>(h)), hn::Set(words, 0x21F0AAADu));
    h = hn::Xor(hn::Xor(h, hn::ShiftRight<15>(h)), hn::Set(words, second));
    h = hn::Mul(h, hn::Set(words, 0x735A2D97u));
    h = hn::Xor(h, hn::ShiftRight<15>(h));
    const auto draw = hn::ConvertTo(kFloats, hn::BitCast(ints, hn::ShiftRight<8>(h)));  // in [0, 2^24), exact
    store_some(hn::IfThenElseZero(hn::Lt(draw, bound), hn::Mul(load_some(x + i, count), scale)), out + i, count);
  });
}

}  // namespace rookery::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rookery::kernels {
HWY_EXPORT(dropout_range);

namespace {
// SplitMix64's finaliser: keys that differ in one bit differ in half of them afterwards.
std::uint64_t mix(std::uint64_t key) {
  key += 0x9E3779B97F4A7C15u;
  key = (key ^ (key >> 30)) * 0xBF58476D1CE4E5B9u;
  key = (key ^ (key >> 27)) * 0x94D049BB133111EBu;
  return key ^ (key >> 31);
}
}  // namespace

void dropout(std::int64_t n, const float* x, float keep_probability, std::uint64_t key, float* out) {
  ROOKERY_CHECK(keep_probability > 0 && keep_probability <= 1, "keep_probability {}", keep_probability);
  ROOKERY_CHECK(n < (std::int64_t{1} << 32), "n {}", n);
  const std::uint64_t mixed = mix(key);
  parallel_for(n, 1 << 14, [&](std::int64_t begin, std::int64_t end) {
    HWY_DYNAMIC_DISPATCH(dropout_range)
    (begin, end, x, keep_probability, static_cast<std::uint32_t>(mixed), static_cast<std::uint32_t>(mixed >> 32), out);
  });
}

}  // namespace rookery::kernels
#endif
