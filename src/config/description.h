#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "config/settings.h"

namespace rookery::config {

// A swarm in words, for planning with computers that are not there: peers.toml. What each key means is said in
// internal/keys.h.

struct DescribedPeer {
  std::string name;  // none: by its number
  std::int64_t count = 1;
  double speed = 1;
  double jitter = 0;
  std::chrono::nanoseconds step_time{0}, micro_batch_time{0};
  std::optional<Bytes> memory;  // none: "unlimited"
  std::string host;
  std::string network = "lan";
  std::optional<BitsPerSecond> uplink, downlink;  // none: as `network` has it
  std::optional<BitsPerSecond> within;            // none: 64 Gbit/s
  std::optional<std::chrono::nanoseconds> latency;

  bool operator==(const DescribedPeer&) const = default;
};

struct DescribedLink {
  std::string from, to;
  std::optional<BitsPerSecond> bandwidth;
  std::chrono::nanoseconds latency{0};

  bool operator==(const DescribedLink&) const = default;
};

struct DescribedSwarm {
  std::vector<DescribedPeer> peers;
  std::vector<DescribedLink> links;  // that are not what the networks of both ends make them

  bool operator==(const DescribedSwarm&) const = default;
};

// How a swarm is simulated.
struct Simulate {
  std::string compute = "modelled";
  std::string formation = "planned";
  std::chrono::nanoseconds time{0};
  double until_loss = 0;
  std::chrono::nanoseconds step_time{0};
  double scale = 1;
  std::chrono::nanoseconds heartbeat{std::chrono::seconds(1)};
  std::chrono::nanoseconds stay{0};
  std::chrono::nanoseconds absence{std::chrono::seconds(30)};
  std::string chaos;

  bool operator==(const Simulate&) const = default;
};

// A run that is simulated: scenario.toml.
struct Scenario {
  Settings settings;  // but for what is about local peers and their network
  DescribedSwarm swarm;
  Simulate simulate;

  bool operator==(const Scenario&) const = default;
};

// Throws InputError, one sentence that names the file, line and key, as load() does, or if there are too many peers.
DescribedSwarm load_peers(const std::filesystem::path& file);

// The same from text, which errors call `name`.
DescribedSwarm parse_peers(std::string_view text, const std::string& name);

// As load(), for peers that are described elsewhere: there are as many as those, whatever `file` and `overrides` say of
// their number, and of local ones.
Settings load(const std::optional<std::filesystem::path>& file, std::span<const std::string> overrides,
              const DescribedSwarm& swarm);

// The complete file, with a comment for every key. Loading it gives an equal description.
std::string to_toml(const DescribedSwarm& swarm);

// A scenario, changed by overrides as in load(). There are as many peers in its settings as are described.
Scenario load_scenario(const std::filesystem::path& file, std::span<const std::string> overrides = {});
Scenario parse_scenario(std::string_view text, const std::string& name, std::span<const std::string> overrides = {});

// The complete file, with a comment for every key. Loading it gives an equal scenario.
std::string to_toml(const Scenario& scenario);

}  // namespace rookery::config
