#pragma once

#include <cstdint>

namespace rookery::train::internal {

// Of the channels by which places are taken over. What goes over them is not training.
inline constexpr std::uint16_t kDonationPurpose = 0x0501;  // of a segment, from another cluster
inline constexpr std::uint16_t kBuddyPurpose = 0x0502;     // copies of a stage, to the next one
inline constexpr std::uint16_t kCopyPurpose = 0x0503;      // such a copy, from the next stage to who is new

}  // namespace rookery::train::internal
