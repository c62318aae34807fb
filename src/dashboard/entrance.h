#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "dashboard/certificate.h"

namespace rookery::dashboard {

// How a dashboard was found: where its run is kept, so that whoever had its page open finds it again when the run is
// resumed, or taken up by another coordinator.
struct Entrance {
  std::uint16_t port = 0;
  std::string token;
  Certificate certificate{};         // that was made up; empty if there was none
  std::vector<std::string> hosts{};  // that it is for
};

// Into a file that nobody but its owner may read. Throws InputError naming it if it cannot be written.
void keep(const Entrance& entrance, const std::filesystem::path& file);

// Nothing if there is none, or what is there is none.
std::optional<Entrance> kept_entrance(const std::filesystem::path& file);

}  // namespace rookery::dashboard
