#include "collective/codec.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <string>

#include "base/error.h"
#include "base/suggest.h"

// Which instruction sets the loops are compiled for: what memory speed needs, and no more.
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "collective/codec.cc"
// clang-format off
#include <hwy/foreach_target.h>
#include <hwy/cache_control.h>
#include <hwy/highway.h>
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace rookery::collective::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
using Ints = hn::RebindToSigned<Floats>;
using Words = hn::RebindToUnsigned<Floats>;
using Halves = hn::Rebind<std::uint16_t, Floats>;
using Quarters = hn::Rebind<std::int8_t, Floats>;
using Vec = hn::Vec<Floats>;

// Runs `body(i, n)` over [0, size) in vectors; the last may be short. Bodies load and store through small buffers
// there, so that the arithmetic is the same wherever a span was cut.
template <typename Body>
HWY_INLINE void for_each_vector(std::size_t size, const Body& body) {
  const std::size_t lanes = hn::Lanes(Floats());
  std::size_t i = 0;
  for (; i + lanes <= size; i += lanes) body(i, lanes);
  if (i < size) body(i, size - i);
}

HWY_INLINE Vec load(const float* from, std::size_t n) {
  const Floats tag;
  return n == hn::Lanes(tag) ? hn::LoadU(tag, from) : hn::MaskedLoad(hn::FirstN(tag, n), tag, from);
}

HWY_INLINE void store(Vec values, float* to, std::size_t n) {
  const Floats tag;
  if (n == hn::Lanes(tag)) {
    hn::StoreU(values, tag, to);
  } else {
    hn::BlendedStore(values, hn::FirstN(tag, n), tag, to);
  }
}

// Encoded bytes have no alignment, and the last vector must not be read or written beyond its end.
template <typename Tag>
HWY_INLINE hn::Vec<Tag> load_bytes(Tag tag, const std::byte* from, std::size_t n) {
  using T = hn::TFromD<Tag>;
  if (n == hn::Lanes(tag)) return hn::LoadU(tag, reinterpret_cast<const T*>(from));
  HWY_ALIGN T buffer[hn::MaxLanes(tag)] = {};
  std::memcpy(buffer, from, std::min(n, hn::MaxLanes(tag)) * sizeof(T));
  return hn::Load(tag, buffer);
}

template <typename Tag>
HWY_INLINE void store_bytes(hn::Vec<Tag> values, Tag tag, std::byte* to, std::size_t n) {
  using T = hn::TFromD<Tag>;
  if (n == hn::Lanes(tag)) return hn::StoreU(values, tag, reinterpret_cast<T*>(to));
  HWY_ALIGN T buffer[hn::MaxLanes(tag)];
  hn::Store(values, tag, buffer);
  std::memcpy(to, buffer, std::min(n, hn::MaxLanes(tag)) * sizeof(T));
}

// Rounds to nearest even; a NaN stays one (its highest mantissa bit is set, so that rounding cannot make it infinite).
HWY_INLINE hn::Vec<Halves> to_bf16(Vec values) {
  const Words words;
  const auto bits = hn::BitCast(words, values);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(words, 1));
  const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(words, 0x7fff))));
  const auto quiet = hn::Or(hn::ShiftRight<16>(bits), hn::Set(words, 0x40));
  const auto is_nan = hn::RebindMask(words, hn::IsNaN(values));
  return hn::DemoteTo(Halves(), hn::BitCast(Ints(), hn::IfThenElse(is_nan, quiet, rounded)));
}

HWY_INLINE Vec from_bf16(hn::Vec<Halves> halves) {
  return hn::BitCast(Floats(), hn::ShiftLeft<16>(hn::PromoteTo(Words(), halves)));
}

struct Bf16 {
  static void encode(const float* values, std::size_t size, std::byte* bytes, float* kept, float* lost) {
    for_each_vector(size, [&](std::size_t i, std::size_t n) HWY_ATTR {
      const Vec v = load(values + i, n);
      const auto halves = to_bf16(v);
      store_bytes(halves, Halves(), bytes + 2 * i, n);
      const Vec decoded = from_bf16(halves);
      if (kept != nullptr) store(decoded, kept + i, n);
      if (lost != nullptr) store(hn::Sub(v, decoded), lost + i, n);
    });
  }

  template <typename Take>
  static HWY_INLINE void decode(const std::byte* bytes, std::size_t size, const Take& take) {
    for_each_vector(size, [&](std::size_t i, std::size_t n)
                              HWY_ATTR { take(i, n, from_bf16(load_bytes(Halves(), bytes + 2 * i, n))); });
  }
};

struct Int8 {
  static constexpr std::size_t kHeader = sizeof(float);

  static HWY_INLINE float largest(const float* values, std::size_t size) {
    Vec most = hn::Zero(Floats()), odd = hn::Zero(Floats());
    for_each_vector(size, [&](std::size_t i, std::size_t n) HWY_ATTR {
      const Vec v = load(values + i, n);
      most = hn::Max(most, hn::Abs(v));
      odd = hn::Add(odd, hn::Mul(v, hn::Zero(Floats())));  // NaN as soon as one value is not finite
    });
    return hn::GetLane(hn::MaxOfLanes(Floats(), most)) + hn::GetLane(hn::SumOfLanes(Floats(), odd));
  }

  static void encode_block(const float* values, std::size_t size, std::byte* bytes, float* kept, float* lost) {
    const float most = largest(values, size);
    const float unit = most / 127;
    const float inverse = unit > 0 ? 1 / unit : 0;  // 0 also where nothing is finite, or all is zero or next to it
    const bool usable = inverse < std::numeric_limits<float>::infinity();
    const float written = usable ? unit : 0.0f;
    std::memcpy(bytes, &written, kHeader);
    const Vec scale_up = hn::Set(Floats(), usable ? inverse : 0.0f), scale_down = hn::Set(Floats(), written);
    for_each_vector(size, [&](std::size_t i, std::size_t n) HWY_ATTR {
      const Vec v = load(values + i, n);
      const auto whole = hn::NearestInt(hn::Mul(v, scale_up));
      store_bytes(hn::DemoteTo(Quarters(), whole), Quarters(), bytes + kHeader + i, n);
      const Vec decoded = hn::Mul(hn::ConvertTo(Floats(), whole), scale_down);
      if (kept != nullptr) store(decoded, kept + i, n);
      if (lost != nullptr) store(hn::Sub(v, decoded), lost + i, n);
    });
  }

  static void encode(const float* values, std::size_t size, std::byte* bytes, float* kept, float* lost) {
    for (std::size_t i = 0; i < size; i += kInt8Block) {
      encode_block(values + i, std::min(kInt8Block, size - i), bytes, kept == nullptr ? nullptr : kept + i,
                   lost == nullptr ? nullptr : lost + i);
      bytes += kHeader + kInt8Block;
    }
  }

  template <typename Take>
  static HWY_INLINE void decode(const std::byte* bytes, std::size_t size, const Take& take) {
    for (std::size_t begin = 0; begin < size; begin += kInt8Block) {
      float unit = 0;
      std::memcpy(&unit, bytes, kHeader);
      const Vec scale_down = hn::Set(Floats(), unit);
      for_each_vector(std::min(kInt8Block, size - begin), [&](std::size_t i, std::size_t n) HWY_ATTR {
        const auto whole = hn::PromoteTo(Ints(), load_bytes(Quarters(), bytes + kHeader + i, n));
        take(begin + i, n, hn::Mul(hn::ConvertTo(Floats(), whole), scale_down));
      });
      bytes += kHeader + kInt8Block;
    }
  }
};

struct Plain {
  template <typename Take>
  static HWY_INLINE void decode(const std::byte* bytes, std::size_t size, const Take& take) {
    for_each_vector(size,
                    [&](std::size_t i, std::size_t n) HWY_ATTR { take(i, n, load_bytes(Floats(), bytes + 4 * i, n)); });
  }
};

template <typename Format>
void decode_into(const std::byte* bytes, float* values, std::size_t size) {
  Format::decode(bytes, size, [&](std::size_t i, std::size_t n, Vec v) HWY_ATTR { store(v, values + i, n); });
}

template <typename Format>
void decode_adding(const std::byte* bytes, float factor, float* values, std::size_t size) {
  const Vec f = hn::Set(Floats(), factor);
  Format::decode(bytes, size, [&](std::size_t i, std::size_t n, Vec v) HWY_ATTR {
    store(hn::MulAdd(f, load(values + i, n), v), values + i, n);
  });
}

void encode_bf16(const float* v, std::size_t n, std::byte* b, float* kept, float* lost) {
  Bf16::encode(v, n, b, kept, lost);
}
void encode_int8(const float* v, std::size_t n, std::byte* b, float* kept, float* lost) {
  Int8::encode(v, n, b, kept, lost);
}
void decode_bf16(const std::byte* b, float* v, std::size_t n) { decode_into<Bf16>(b, v, n); }
void decode_int8(const std::byte* b, float* v, std::size_t n) { decode_into<Int8>(b, v, n); }
void decode_add_none(const std::byte* b, float f, float* v, std::size_t n) { decode_adding<Plain>(b, f, v, n); }
void decode_add_bf16(const std::byte* b, float f, float* v, std::size_t n) { decode_adding<Bf16>(b, f, v, n); }
void decode_add_int8(const std::byte* b, float f, float* v, std::size_t n) { decode_adding<Int8>(b, f, v, n); }

// Only whole aligned vectors can pass the cache; what lies around them is copied.
void stream_floats(const std::byte* bytes, float* values, std::size_t size) {
  const Floats tag;
  const std::size_t lanes = hn::Lanes(tag), beyond = reinterpret_cast<std::uintptr_t>(values) / sizeof(float) % lanes;
  std::size_t i = std::min(beyond == 0 ? 0 : lanes - beyond, size);
  std::memcpy(values, bytes, i * sizeof(float));
  for (; i + lanes <= size; i += lanes) hn::Stream(load_bytes(tag, bytes + 4 * i, lanes), tag, values + i);
  std::memcpy(values + i, bytes + 4 * i, (size - i) * sizeof(float));
  hwy::FlushStream();
}

void scale_floats(float factor, float* values, std::size_t size) {
  const Vec f = hn::Set(Floats(), factor);
  for_each_vector(
      size, [&](std::size_t i, std::size_t n) HWY_ATTR { store(hn::Mul(f, load(values + i, n)), values + i, n); });
}

void add_floats(const float* more, float* values, std::size_t size) {
  for_each_vector(size, [&](std::size_t i, std::size_t n)
                            HWY_ATTR { store(hn::Add(load(more + i, n), load(values + i, n)), values + i, n); });
}

using Terms = std::span<const std::span<const float>>;

void sum_weighted(Terms terms, const float* weights, float* values, std::size_t size) {
  for_each_vector(size, [&](std::size_t i, std::size_t n) HWY_ATTR {
    Vec sum = hn::Mul(hn::Set(Floats(), weights[0]), load(terms[0].data() + i, n));
    for (std::size_t k = 1; k < terms.size(); ++k) {
      sum = hn::Add(sum, hn::Mul(hn::Set(Floats(), weights[k]), load(terms[k].data() + i, n)));
    }
    store(sum, values + i, n);
  });
}

void sum_differences(Terms others, const float* weights, const float* own, float* values, std::size_t size) {
  for_each_vector(size, [&](std::size_t i, std::size_t n) HWY_ATTR {
    const Vec mine = load(own + i, n);
    Vec sum = hn::Zero(Floats());
    for (std::size_t k = 0; k < others.size(); ++k) {
      sum = hn::Add(sum, hn::Mul(hn::Set(Floats(), weights[k]), hn::Sub(load(others[k].data() + i, n), mine)));
    }
    store(hn::Add(load(values + i, n), sum), values + i, n);
  });
}

}  // namespace rookery::collective::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rookery::collective {
namespace {

HWY_EXPORT(encode_bf16);
HWY_EXPORT(encode_int8);
HWY_EXPORT(decode_bf16);
HWY_EXPORT(decode_int8);
HWY_EXPORT(decode_add_none);
HWY_EXPORT(decode_add_bf16);
HWY_EXPORT(decode_add_int8);
HWY_EXPORT(stream_floats);
HWY_EXPORT(scale_floats);
HWY_EXPORT(add_floats);
HWY_EXPORT(sum_weighted);
HWY_EXPORT(sum_differences);

constexpr std::size_t kBlockBytes = sizeof(float) + kInt8Block;

void check_sizes(Codec codec, std::size_t values, std::size_t bytes) {
  ROOKERY_CHECK(bytes == encoded_bytes(codec, values), "values = {}, bytes = {}", values, bytes);
}

void encode_to(Codec codec, std::span<const float> values, std::span<std::byte> bytes, float* kept,
               std::span<float> lost) {
  check_sizes(codec, values.size(), bytes.size());
  if (values.empty()) return;
  ROOKERY_CHECK(lost.empty() || lost.size() == values.size());
  float* const error = lost.empty() ? nullptr : lost.data();
  switch (codec) {
    case Codec::kNone:
      std::memcpy(bytes.data(), values.data(), bytes.size());
      std::ranges::fill(lost, 0.0f);
      break;
    case Codec::kBf16:
      HWY_DYNAMIC_DISPATCH(encode_bf16)(values.data(), values.size(), bytes.data(), kept, error);
      break;
    case Codec::kInt8:
      HWY_DYNAMIC_DISPATCH(encode_int8)(values.data(), values.size(), bytes.data(), kept, error);
      break;
  }
}

}  // namespace

Codec parse_codec(std::string_view name) {
  for (const Codec codec : {Codec::kNone, Codec::kBf16, Codec::kInt8}) {
    if (name_of(codec) == name) return codec;
  }
  static const std::array<std::string, 3> known = {"none", "bf16", "int8"};
  throw InputError("'{}' is no codec; use none, bf16 or int8{}", name, did_you_mean(name, known));
}

std::string_view name_of(Codec codec) {
  return codec == Codec::kNone ? "none" : codec == Codec::kBf16 ? "bf16" : "int8";
}

std::size_t encoded_bytes(Codec codec, std::size_t values) {
  if (codec == Codec::kNone) return 4 * values;
  if (codec == Codec::kBf16) return 2 * values;
  const std::size_t blocks = (values + kInt8Block - 1) / kInt8Block;
  return blocks * sizeof(float) + values;
}

std::size_t decoded_values(Codec codec, std::size_t bytes) {
  if (codec == Codec::kNone) return bytes / 4;
  if (codec == Codec::kBf16) return bytes / 2;
  const std::size_t rest = bytes % kBlockBytes;
  return bytes / kBlockBytes * kInt8Block + (rest > sizeof(float) ? rest - sizeof(float) : 0);
}

std::size_t grain(Codec codec) { return codec == Codec::kNone ? 4 : codec == Codec::kBf16 ? 2 : kBlockBytes; }

std::size_t values_per_grain(Codec codec) { return codec == Codec::kInt8 ? kInt8Block : 1; }

void encode_and_keep(Codec codec, std::span<float> values, std::span<std::byte> bytes, std::span<float> lost) {
  encode_to(codec, values, bytes, values.data(), lost);
}

void encode(Codec codec, std::span<const float> values, std::span<std::byte> bytes, std::span<float> lost) {
  encode_to(codec, values, bytes, nullptr, lost);
}

void decode(Codec codec, std::span<const std::byte> bytes, std::span<float> values) {
  check_sizes(codec, values.size(), bytes.size());
  if (values.empty()) return;
  switch (codec) {
    case Codec::kNone:
      std::memcpy(values.data(), bytes.data(), bytes.size());
      break;
    case Codec::kBf16:
      HWY_DYNAMIC_DISPATCH(decode_bf16)(bytes.data(), values.data(), values.size());
      break;
    case Codec::kInt8:
      HWY_DYNAMIC_DISPATCH(decode_int8)(bytes.data(), values.data(), values.size());
      break;
  }
}

void copy_past_cache(std::span<const std::byte> bytes, std::span<float> values) {
  check_sizes(Codec::kNone, values.size(), bytes.size());
  if (!values.empty()) HWY_DYNAMIC_DISPATCH(stream_floats)(bytes.data(), values.data(), values.size());
}

void decode_add(Codec codec, std::span<const std::byte> bytes, float factor, std::span<float> values) {
  check_sizes(codec, values.size(), bytes.size());
  switch (codec) {
    case Codec::kNone:
      HWY_DYNAMIC_DISPATCH(decode_add_none)(bytes.data(), factor, values.data(), values.size());
      break;
    case Codec::kBf16:
      HWY_DYNAMIC_DISPATCH(decode_add_bf16)(bytes.data(), factor, values.data(), values.size());
      break;
    case Codec::kInt8:
      HWY_DYNAMIC_DISPATCH(decode_add_int8)(bytes.data(), factor, values.data(), values.size());
      break;
  }
}

void scale(float factor, std::span<float> values) {
  if (factor != 1) HWY_DYNAMIC_DISPATCH(scale_floats)(factor, values.data(), values.size());
}

void weighted_sum(std::span<const std::span<const float>> terms, std::span<const float> weights,
                  std::span<float> values) {
  ROOKERY_CHECK(!terms.empty() && terms.size() == weights.size());
  for (const auto& term : terms) ROOKERY_CHECK(term.size() == values.size());
  HWY_DYNAMIC_DISPATCH(sum_weighted)(terms, weights.data(), values.data(), values.size());
}

void add_differences(std::span<const std::span<const float>> others, std::span<const float> weights,
                     std::span<const float> own, std::span<float> values) {
  ROOKERY_CHECK(others.size() == weights.size() && own.size() == values.size());
  for (const auto& other : others) ROOKERY_CHECK(other.size() == values.size());
  HWY_DYNAMIC_DISPATCH(sum_differences)(others, weights.data(), own.data(), values.data(), values.size());
}

void add(std::span<const float> more, std::span<float> values) {
  ROOKERY_CHECK(more.size() == values.size());
  HWY_DYNAMIC_DISPATCH(add_floats)(more.data(), values.data(), values.size());
}

}  // namespace rookery::collective
#endif  // HWY_ONCE
