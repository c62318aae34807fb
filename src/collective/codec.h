#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace rookery::collective {

// How floats travel.
//   none   as they are
//   bf16   the upper half of a float, rounded to nearest even: half the bytes, a relative error of 2^-9
//   int8   blocks of 1024 with one scale each: a quarter of the bytes, an absolute error of the block's largest value /
//   254
// What is not finite stays not finite: bf16 keeps it, and int8 makes the whole block NaN, so nobody mistakes it for
// data.
enum class Codec { kNone, kBf16, kInt8 };

inline constexpr std::size_t kInt8Block = 1024;  // values

// "none", "bf16", "int8". Throws InputError on another name.
Codec parse_codec(std::string_view name);
std::string_view name_of(Codec codec);

std::size_t encoded_bytes(Codec codec, std::size_t values);
std::size_t decoded_values(Codec codec, std::size_t bytes);  // the other way round

// Where encoded bytes may be cut: every piece that is a multiple of this can be decoded alone.
std::size_t grain(Codec codec);
std::size_t values_per_grain(Codec codec);

// Below, `bytes` has encoded_bytes(codec, values.size()) bytes, without any alignment. All are vectorised.

// bytes = encode(values); values = decode(bytes); and lost = what that took away, unless `lost` is empty.
void encode_and_keep(Codec codec, std::span<float> values, std::span<std::byte> bytes, std::span<float> lost);

// bytes = encode(values), and lost likewise.
void encode(Codec codec, std::span<const float> values, std::span<std::byte> bytes, std::span<float> lost);

// values = decode(bytes)
void decode(Codec codec, std::span<const std::byte> bytes, std::span<float> values);

// values = the floats in `bytes`, written past the cache: for what nobody reads soon.
void copy_past_cache(std::span<const std::byte> bytes, std::span<float> values);

// values = factor * values + decode(bytes)
void decode_add(Codec codec, std::span<const std::byte> bytes, float factor, std::span<float> values);

// values *= factor
void scale(float factor, std::span<float> values);

// values = the sum of weights[k] * terms[k], in this order, each product and each sum rounded: the same bits on every
// machine. A term may be the values themselves.
void weighted_sum(std::span<const std::span<const float>> terms, std::span<const float> weights,
                  std::span<float> values);

// values += the sum of weights[k] * (others[k] - own), likewise
void add_differences(std::span<const std::span<const float>> others, std::span<const float> weights,
                     std::span<const float> own, std::span<float> values);

// values += more
void add(std::span<const float> more, std::span<float> values);

}  // namespace rookery::collective
