#include <algorithm>
#include <charconv>
#include <numeric>

#include <fmt/format.h>

#include "base/error.h"
#include "base/file.h"
#include "base/suggest.h"
#include "config/description.h"
#include "config/internal/document.h"
#include "config/internal/keys.h"

namespace rookery::config {
namespace {

using internal::Value;

constexpr Bytes kLargestFile = Bytes{1} << 20;
constexpr Bytes kLargestSwarm = Bytes{64} << 20;  // with a table for every link
constexpr std::size_t kMostPeers = 100'000;

// The full names of all keys.
struct Names {
  std::vector<std::string> names;
  std::string prefix;

  void key(std::string_view name, const auto&, std::string_view, const auto&) {
    names.push_back(fmt::format("{}{}", prefix, name));
  }
  void section(std::string_view name, const auto& keys, std::string_view) {
    prefix = fmt::format("{}.", name);
    internal::keys_of(keys, *this);
    prefix.clear();
  }
  template <typename T>
  void list(std::string_view name, const std::vector<T>&, std::string_view comment) {
    section(name, T{}, comment);
  }
};

// "; did you mean 'train.lr'?" when the key exists, but elsewhere.
std::string found_elsewhere(std::string_view name) {
  Names all;
  const Settings defaults;
  internal::keys_of(defaults, all);
  const std::string ending = fmt::format(".{}", name);
  for (const std::string& full : all.names) {
    if (full == name || full.ends_with(ending)) return fmt::format("; did you mean '{}'?", full);
  }
  return "";
}

// Takes what is in a table over into settings.
class Reader {
 public:
  Reader(const Value::Table& table, std::string prefix) : table_(table), prefix_(std::move(prefix)) {}

  template <typename T>
  static void read(T& keys, const Value& value, const std::string& name) {
    const auto* table = std::get_if<Value::Table>(&value.content);
    if (table == nullptr) {
      throw InputError("{}: {} must be a table, [{}], not {}", value.place, name, name, type_name(value));
    }
    Reader reader(*table, name + ".");
    internal::keys_of(keys, reader);
    reader.refuse_unknown();
  }

  template <typename T, typename Rule>
  void key(const std::string& name, T& setting, std::string_view, const Rule& rule) {
    const Value* value = find(name);
    if (value == nullptr) return;
    try {
      setting = rule.read(*value);
    } catch (const InputError& error) {
      throw InputError("{}: {}{} {}", value->place, prefix_, name, error.what());
    }
  }

  template <typename T>
  void section(const std::string& name, T& keys, std::string_view) {
    if (const Value* value = find(name)) read(keys, *value, name);
  }

  template <typename T>
  void list(const std::string& name, std::vector<T>& list, std::string_view) {
    const Value* value = find(name);
    if (value == nullptr) return;
    const auto* tables = std::get_if<Value::Array>(&value->content);
    if (tables == nullptr) {
      throw InputError("{}: {} must be a list of tables, [[{}]], not {}", value->place, name, name, type_name(*value));
    }
    list.assign(tables->size(), T{});
    for (std::size_t i = 0; i < list.size(); ++i) read(list[i], (*tables)[i], fmt::format("{}.{}", name, i));
  }

  // Requires: keys_of() has walked through this reader.
  void refuse_unknown() const {
    for (const auto& [name, value] : table_) {
      if (std::find(known_.begin(), known_.end(), name) != known_.end()) continue;
      const bool is_section = prefix_.empty() && std::holds_alternative<Value::Table>(value.content);
      std::string hint = is_section ? "" : found_elsewhere(name);
      if (hint.empty()) hint = did_you_mean(name, known_);
      throw InputError("{}: {}{} is not a known {}{}", value.place, prefix_, name, is_section ? "section" : "key",
                       hint);
    }
  }

 private:
  // The value of a key that exists, if the table has it.
  const Value* find(const std::string& name) {
    known_.push_back(name);
    const auto entry = std::find_if(table_.begin(), table_.end(), [&](const auto& e) { return e.first == name; });
    return entry == table_.end() ? nullptr : &entry->second;
  }

  const Value::Table& table_;
  std::string prefix_;
  std::vector<std::string> known_;
};

template <typename T>
void read_document(T& settings, const Value::Table& table) {
  Reader reader(table, "");
  internal::keys_of(settings, reader);
  reader.refuse_unknown();
}

// {a: {b: value}} for the path "a.b".
Value nested(std::string_view path, Value value) {
  const std::size_t dot = path.find('.');
  if (dot != std::string_view::npos) value = nested(path.substr(dot + 1), std::move(value));
  std::string place = value.place;
  return {Value::Table{{std::string(path.substr(0, dot)), std::move(value)}}, std::move(place), {}};
}

std::vector<Peer>& peers_of(Settings& settings) { return settings.peers; }
std::vector<DescribedPeer>& peers_of(Scenario& scenario) { return scenario.swarm.peers; }

// For the path "peer.2.speed": reads "speed" into the third peer, adding peers up to it.
template <typename P>
void read_peer(std::vector<P>& peers, std::string_view path, Value value) {
  const std::size_t begin = path.find('.') + 1, end = path.find('.', begin);
  const std::string_view digits = path.substr(begin, end - begin);
  std::size_t index = 0;
  const auto [last, error] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
  if (error != std::errc{} || last != digits.data() + digits.size() || index >= kMostPeers ||
      end == std::string_view::npos) {
    throw InputError("--set: {} is not a known key; write peer.NUMBER.KEY, e.g. peer.0.speed", path);
  }
  if (peers.size() <= index) {
    if constexpr (std::is_same_v<P, DescribedPeer>) {
      throw InputError("--set: there is no [[peer]] number {}: there are {}", index, peers.size());
    }
    peers.resize(index + 1);
  }
  Reader::read(peers[index], nested(path.substr(end + 1), std::move(value)), std::string(path.substr(0, end)));
}

template <typename T>
void apply_override(T& settings, const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == 0 || equals == std::string::npos) {
    throw InputError("--set: '{}' is not of the form section.key=value", text);
  }
  const std::string_view path = std::string_view(text).substr(0, equals);
  Value value = internal::parse_override(std::string_view(text).substr(equals + 1));
  if (path.starts_with("peer.")) return read_peer(peers_of(settings), path, std::move(value));
  read_document(settings, std::get<Value::Table>(nested(path, std::move(value)).content));
}

// What no key can be checked for alone. The sentence that is wrong, or "".
std::string conflict(const Settings& s) {
  if (s.train.batch % s.train.micro_batches != 0) {
    return fmt::format("train.batch ({}) must be a multiple of train.micro_batches ({})", s.train.batch,
                       s.train.micro_batches);
  }
  if (s.model.heads > 0 && s.model.width % s.model.heads != 0) {
    return fmt::format("model.width ({}) must be a multiple of model.heads ({})", s.model.width, s.model.heads);
  }
  if (const auto& clusters = s.swarm.clusters) {
    if (clusters->count > s.swarm.peers) {
      return fmt::format("swarm.clusters ({}) must not be more than swarm.peers ({})", clusters->count, s.swarm.peers);
    }
    const auto peers = std::accumulate(clusters->sizes.begin(), clusters->sizes.end(), std::int64_t{0});
    if (!clusters->sizes.empty() && peers != s.swarm.peers) {
      return fmt::format("swarm.clusters [{}] has {} peers, but swarm.peers is {}", fmt::join(clusters->sizes, ", "),
                         peers, s.swarm.peers);
    }
  }
  if (static_cast<std::int64_t>(s.peers.size()) > s.swarm.peers) {
    return fmt::format("there are {} [[peer]] tables, but swarm.peers is {}", s.peers.size(), s.swarm.peers);
  }
  return "";
}

Settings read_text(std::string_view text, const std::string& name) {
  Settings settings;
  const Value document = internal::parse_document(text, name);
  read_document(settings, std::get<Value::Table>(document.content));
  return settings;
}

void check(const Settings& settings, const std::string& name) {
  const std::string problem = conflict(settings);
  if (!problem.empty()) throw InputError("{}{}", name.empty() ? "" : name + ": ", problem);
}

Settings load_unchecked(const std::optional<std::filesystem::path>& file, std::span<const std::string> overrides) {
  Settings settings;
  if (file) settings = read_text(read_file(*file, kLargestFile), file->string());
  for (const std::string& text : overrides) apply_override(settings, text);
  return settings;
}

std::int64_t count_of(const DescribedSwarm& swarm) {
  std::int64_t peers = 0;
  for (const DescribedPeer& peer : swarm.peers) peers += peer.count;
  return peers;
}

void check(const DescribedSwarm& swarm, const std::string& name) {
  if (swarm.peers.empty()) throw InputError("{}: there is no peer; add a table [[peer]] for each", name);
  if (count_of(swarm) > static_cast<std::int64_t>(kMostPeers)) {
    throw InputError("{}: there are {} peers, but there can be at most {}", name, count_of(swarm), kMostPeers);
  }
}

}  // namespace

Settings load(const std::optional<std::filesystem::path>& file, std::span<const std::string> overrides) {
  Settings settings = load_unchecked(file, overrides);
  check(settings, file ? file->string() : "");
  return settings;
}

Settings load(const std::optional<std::filesystem::path>& file, std::span<const std::string> overrides,
              const DescribedSwarm& swarm) {
  Settings settings = load_unchecked(file, overrides);
  settings.peers.clear();
  settings.swarm.peers = count_of(swarm);
  check(settings, file ? file->string() : "");
  return settings;
}

Settings changed(Settings settings, std::span<const std::string> overrides) {
  for (const std::string& text : overrides) apply_override(settings, text);
  check(settings, "");
  return settings;
}

Settings parse(std::string_view text, const std::string& name) {
  const Settings settings = read_text(text, name);
  check(settings, name);
  return settings;
}

DescribedSwarm load_peers(const std::filesystem::path& file) {
  return parse_peers(read_file(file, kLargestSwarm), file.string());
}

DescribedSwarm parse_peers(std::string_view text, const std::string& name) {
  DescribedSwarm swarm;
  const Value document = internal::parse_document(text, name);
  read_document(swarm, std::get<Value::Table>(document.content));
  check(swarm, name);
  return swarm;
}

Scenario load_scenario(const std::filesystem::path& file, std::span<const std::string> overrides) {
  return parse_scenario(read_file(file, kLargestSwarm), file.string(), overrides);
}

Scenario parse_scenario(std::string_view text, const std::string& name, std::span<const std::string> overrides) {
  Scenario scenario;
  const Value document = internal::parse_document(text, name);
  read_document(scenario, std::get<Value::Table>(document.content));
  for (const std::string& override : overrides) apply_override(scenario, override);
  check(scenario.swarm, name);
  scenario.settings.swarm.peers = count_of(scenario.swarm);
  check(scenario.settings, name);
  return scenario;
}

}  // namespace rookery::config
