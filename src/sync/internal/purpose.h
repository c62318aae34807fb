#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "collective/ring_all_reduce.h"

namespace rookery::sync::internal {

// Purposes of channels; each segment has a block of indices.
inline constexpr std::uint16_t kAveragePurpose = 0x0200, kMixPurpose = 0x0201, kApartPurpose = 0x0202,
                               kMixRingPurpose = 0x0203, kChangingPurpose = 0x0204, kChangingApartPurpose = 0x0205;
inline constexpr std::uint32_t kIndicesPerSegment = 1 << 21;

// Of averages, if each value stands for `scale` of them.
inline std::size_t chunk_bytes(double scale) {
  constexpr std::size_t kLeast = 1024;  // a block of values of a codec
  const auto usual = static_cast<double>(collective::AllReduceOptions{}.chunk_bytes);
  return std::max(kLeast, static_cast<std::size_t>(usual / scale) / sizeof(float) * sizeof(float));
}

}  // namespace rookery::sync::internal
