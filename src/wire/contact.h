#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "wire/frame.h"

namespace rookery::wire {

// How a peer is found by others.
struct Contact {
  std::string name{};
  std::array<std::byte, 32> fingerprint{};  // of its key
  std::vector<std::string> addresses{};     // HOST:PORT where it can be dialled, in order of preference; none: nowhere

  bool operator==(const Contact&) const = default;
};

inline constexpr std::size_t kMaxAddresses = 8;
inline constexpr std::size_t kMaxAddressBytes = 255;

// Short, and without anything that cannot be shown. Whether it is HOST:PORT is up to whoever dials it.
bool is_address(std::string_view text);

std::vector<std::byte> encode(const Contact& contact);

// Throws WireError if a field is missing, too long, or not what it should be.
Contact decode_contact(std::span<const std::byte> bytes);

}  // namespace rookery::wire
