#pragma once

#include <cstdint>

namespace rookery::net::purpose {

// What this module itself uses channels for. Purposes below 0xff00 are free for those who use links.
inline constexpr std::uint16_t kRelayTalk = 0xff00;   // between a relay and its guest
inline constexpr std::uint16_t kRelayBytes = 0xff01;  // a connection through a relay

}  // namespace rookery::net::purpose
