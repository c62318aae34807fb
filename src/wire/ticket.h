#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "wire/contact.h"

namespace rookery::wire {

// What admits a peer to a swarm, as one string that people copy: where the coordinator is, how to know it, and a
// secret.
struct Ticket {
  std::vector<std::string> addresses;       // HOST:PORT, in order of preference; 1 to kMaxAddresses
  std::array<std::byte, 32> fingerprint{};  // of the coordinator's key
  std::array<std::byte, 32> secret{};
  std::uint64_t expires = 0;  // seconds since 1970; 0: never

  bool operator==(const Ticket&) const = default;
};

// "rookery-…": letters, digits, - and _ only, so that a double click selects it, with a checksum.
std::string to_text(const Ticket& ticket);

// Throws WireError unless it is what to_text makes; the message says what to do. White space around it is fine.
Ticket parse_ticket(std::string_view text);

}  // namespace rookery::wire
