#include "train/journal.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "wire/swarm_message.h"

namespace rookery::train {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int kVersion = 1;
constexpr Bytes kMostBytes = Bytes{64} << 20;

fs::path made(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw InputError("{}: cannot be made: {}", folder.string(), error.message());
  return folder;
}

std::span<const std::byte> bytes_of(const json& binary) { return std::as_bytes(std::span(binary.get_binary())); }

}  // namespace

Journal::Journal(const fs::path& folder)
    : key_(made(folder) / "key.pem"), entry_(folder / "plan.cbor"), lock_(folder / "lock", {}) {
  if (!lock_.is_held()) throw InputError("{}: another coordinator has this run; end that one first", folder.string());
}

std::optional<net::Identity> Journal::identity() const {
  if (!fs::exists(key_)) return std::nullopt;
  return net::Identity::load_or_create(key_);
}

void Journal::keep(const net::Identity& identity) const { identity.save(key_); }

void Journal::forget() const {
  std::error_code ignored;
  fs::remove(entry_, ignored);
}

void Journal::keep(const Entry& entry) const {
  const std::vector<std::byte> plan = wire::encode(entry.memory.plan);
  const auto* first = reinterpret_cast<const std::uint8_t*>(plan.data());
  json object = {{"version", kVersion},           {"listen", entry.listen},
                 {"begun", entry.memory.begun},   {"stopping", entry.memory.stopping},
                 {"moving", entry.memory.moving}, {"plan", json::binary({first, first + plan.size()})},
                 {"expelled", json::array()}};
  if (entry.memory.covered) object["covered"] = *entry.memory.covered;
  for (const net::Fingerprint& key : entry.memory.expelled) object["expelled"].push_back(key.text());
  const std::vector<std::uint8_t> content = json::to_cbor(object);
  replace_file(entry_, {reinterpret_cast<const char*>(content.data()), content.size()});
}

std::optional<Journal::Entry> Journal::last() const {
  if (!fs::exists(entry_)) return std::nullopt;
  const std::string content = read_file(entry_, kMostBytes);
  try {
    const json object = json::from_cbor(content);
    if (object.at("version") != kVersion) throw Error("it was written by another version");
    Entry entry{
        .memory = {.begun = object.at("begun"), .stopping = object.at("stopping"), .moving = object.at("moving")},
        .listen = object.at("listen")};
    if (object.contains("covered")) entry.memory.covered = object.at("covered");
    entry.memory.plan = std::get<wire::Plan>(wire::decode_swarm_message(bytes_of(object.at("plan"))));
    for (const json& key : object.at("expelled")) {
      entry.memory.expelled.insert(net::Fingerprint::parse(key.get<std::string>()));
    }
    return entry;
  } catch (const std::exception& error) {
    throw InputError("{}: cannot be read: {}", entry_.string(), error.what());
  }
}

wire::Ticket ticket_of(const net::Identity& identity) {
  constexpr std::string_view kWhat = "the secret of a rookery ticket";
  const net::Identity::Signature proof = identity.sign(std::as_bytes(std::span(kWhat)));
  wire::Ticket ticket;
  ticket.fingerprint = identity.fingerprint().bytes();
  const net::Fingerprint secret = net::Fingerprint::parse(digest(proof));  // as many bytes
  ticket.secret = secret.bytes();
  return ticket;
}

}  // namespace rookery::train
