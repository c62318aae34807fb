#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>

namespace rookery {

// Sanitizers make everything many times slower; what they look for does not need many repetitions.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

constexpr std::uint64_t repetitions(std::uint64_t usual) {
  return kSanitized ? std::max<std::uint64_t>(usual / 10, 2) : usual;
}

// With how many seeds a test draws what happens: as many as it has time for, or as the environment's ROOKERY_SEEDS says
// (scripts/soak.sh). ROOKERY_FIRST_SEED is the one to begin with, so that a failure can be seen again.
struct Seeds {
  std::uint64_t first = 0, last = 0;  // [first, last)
};

inline Seeds seeds_of(std::uint64_t usual) {
  const auto number = [](const char* name, std::uint64_t otherwise) {
    const char* text = std::getenv(name);
    return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
  };
  const std::uint64_t first = number("ROOKERY_FIRST_SEED", 0);
  return {.first = first, .last = first + number("ROOKERY_SEEDS", repetitions(usual))};
}

}  // namespace rookery
