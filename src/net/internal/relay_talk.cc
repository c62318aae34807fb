#include "net/internal/relay_talk.h"

#include <algorithm>

#include "net/purpose.h"
#include "wire/bytes.h"

namespace rookery::net::internal {
namespace {

constexpr std::size_t kMaxWhy = 512;
constexpr std::size_t kMaxSaid = 64;

}  // namespace

ChannelId talk_channel() { return {.purpose = purpose::kRelayTalk}; }

ChannelId call_channel(std::uint64_t index) {
  return {.purpose = purpose::kRelayBytes, .index = static_cast<std::uint32_t>(index)};
}

Fingerprint take_fingerprint(ConstBytes& bytes) {
  Fingerprint::Bytes whom;
  if (bytes.size() < whom.size()) throw LinkError(Failure::kProtocol, "", "names nobody to the relay");
  std::ranges::copy(bytes.first(whom.size()), whom.begin());
  bytes = bytes.subspan(whom.size());
  return Fingerprint(whom);
}

wire::Contact take_contact(ConstBytes bytes) {
  try {
    return wire::decode_contact(bytes);
  } catch (const wire::WireError& error) {
    throw LinkError(Failure::kProtocol, "", error.what());
  }
}

std::string take_text(ConstBytes bytes) {
  bytes = bytes.first(std::min(bytes.size(), kMaxWhy));
  return wire::printable({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

std::vector<std::byte> after(const Fingerprint& whom, ConstBytes rest) {
  std::vector<std::byte> bytes(whom.bytes().begin(), whom.bytes().end());
  bytes.insert(bytes.end(), rest.begin(), rest.end());
  return bytes;
}

std::vector<std::byte> after(const Fingerprint& whom, const std::string& text) {
  return after(whom, std::as_bytes(std::span(text)).first(std::min(text.size(), kMaxWhy)));
}

bool Talker::say(Talk type, std::uint64_t tag, std::vector<std::byte> payload) {
  while (!said_.empty() && said_.front().send.ended()) said_.pop_front();
  if (said_.size() == kMaxSaid) return false;
  Said& said = said_.emplace_back();
  said.payload = std::move(payload);
  said.send.label = {.type = type, .tag = tag};
  said.send.payload = said.payload;
  channel_->post(said.send);
  return true;
}

}  // namespace rookery::net::internal
