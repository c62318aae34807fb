#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/units.h"

namespace rookery::config {

// Everything a user can set about a run, as checked values. What each key means, how it is written and what is allowed
// is said once, in internal/keys.h; `rookery config` prints it. The members are in the order of the printed file.

// In [model], 0 means: from the preset that `kind` names, else the kind's default, else from the data.
struct Model {
  std::string kind = "gpt";
  std::int64_t layers = 0;
  std::int64_t width = 0;
  std::int64_t heads = 0;
  std::int64_t hidden = 0;
  std::int64_t context = 0;
  std::int64_t vocabulary = 0;
  double dropout = 0;
  std::int64_t classes = 0;
  std::int64_t channels = 0;
  std::int64_t image_size = 0;
  std::string stem = "auto";

  bool operator==(const Model&) const = default;
};

struct Data {
  std::string source = "tales";
  std::string tokenizer = "bytes";
  bool augment = false;
  double mask_probability = 0.15;

  bool operator==(const Data&) const = default;
};

struct Train {
  std::int64_t steps = 300;
  std::int64_t batch = 16;
  std::int64_t micro_batches = 1;
  std::string optimizer = "adamw";
  double lr = 1e-3;
  double weight_decay = 0.01;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double momentum = 0.9;
  bool nesterov = false;
  std::int64_t accumulate = 1;
  double clip = 1;
  std::int64_t warmup = 0;
  std::string schedule = "cosine";
  double min_lr = 0.1;
  std::int64_t seed = 1;
  std::int64_t eval_every = 100;
  std::int64_t eval_batches = 8;
  std::int64_t checkpoint_every = 100;
  std::int64_t keep_checkpoints = 1;
  std::int64_t log_every = 10;
  std::int64_t threads = 0;
  std::string device = "cpu";

  bool operator==(const Train&) const = default;
};

// Copies of the model.
struct Clusters {
  std::int64_t count = 1;
  std::vector<std::int64_t> sizes;  // peers of each; empty: as even as can be

  bool operator==(const Clusters&) const = default;
};

struct Swarm {
  std::int64_t peers = 1;
  std::optional<Clusters> clusters;  // none: "auto"
  std::string goal = "loss";
  std::optional<std::int64_t> buddy_every{};  // none: "auto"
  bool replan = true;

  bool operator==(const Swarm&) const = default;
};

// The layers [begin, end) of one stage.
struct LayerRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  bool operator==(const LayerRange&) const = default;
};

struct Pipeline {
  std::string schedule = "auto";
  std::optional<std::vector<LayerRange>> stages;  // none: "auto"; else contiguous, from layer 0 on
  std::string weights = "stash";
  std::int64_t update_frequency = 1;
  std::string codec = "none";

  bool operator==(const Pipeline&) const = default;
};

struct Sync {
  std::string method = "auto";
  std::optional<std::int64_t> interval{};  // none: "auto"
  std::string codec = "none";
  std::string topology = "auto";
  std::string mode = "cwc";
  double consensus = 1;
  double outer_lr = 0.7;
  double outer_momentum = 0.9;
  double pull_probability = 0.1;
  double pull_strength = 0.5;
  double pull_lr = 0.01;
  std::string pull = "random";
  std::int64_t warmup_steps = 32;
  std::int64_t fragments = 1;
  std::int64_t delay = 0;
  double merge = 0;
  bool average_moments = false;
  std::int64_t group = 16;
  std::string robust = "off";

  bool operator==(const Sync&) const = default;
};

struct Network {
  std::optional<BitsPerSecond> bandwidth;  // none: "unlimited"
  std::chrono::nanoseconds latency{0};
  std::chrono::nanoseconds jitter{0};
  double loss = 0;

  bool operator==(const Network&) const = default;
};

struct Peer {
  double speed = 1;
  double jitter = 0;
  std::chrono::nanoseconds step_time{0};
  std::optional<Bytes> memory;  // none: "unlimited"
  std::string host;
  std::string fault = "none";

  bool operator==(const Peer&) const = default;
};

struct Dashboard {
  std::string listen = "127.0.0.1:0";
  std::string certificate, key;

  bool operator==(const Dashboard&) const = default;
};

struct Settings {
  std::string name = "run";
  Model model;
  Data data;
  Train train;
  Swarm swarm;
  Pipeline pipeline;
  Sync sync;
  Network network;
  std::vector<Peer> peers;  // may be fewer than swarm.peers; the others are Peer{}
  Dashboard dashboard;

  bool operator==(const Settings&) const = default;
};

// The defaults, changed by `file`, changed by `overrides` in their order. An override is "section.key=value", "name=x"
// or "peer.0.speed=0.5"; its value is written as in TOML, and the quotes of a string may be left out.
//
// Throws InputError, one sentence that names the file and line (or --set) and the key, when the file is missing, larger
// than 1 MiB or not TOML; when a key is unknown, written twice, of the wrong type or unit, or out of range; and when
// values do not fit together.
Settings load(const std::optional<std::filesystem::path>& file, std::span<const std::string> overrides = {});

// The same settings, with overrides.
Settings changed(Settings settings, std::span<const std::string> overrides);

// The same from the text of a file, which errors call `name`.
Settings parse(std::string_view text, const std::string& name);

// The complete file, with a comment for every key, at most 120 columns wide where the values allow. Loading it gives
// equal settings.
std::string to_toml(const Settings& settings);

// {"name": …, "model": {…}, …, "peer": […]}: the same names and values as in the file, those with a unit as text.
nlohmann::ordered_json to_json(const Settings& settings);

}  // namespace rookery::config
