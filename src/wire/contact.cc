#include "wire/contact.h"

#include <algorithm>
#include <proto/handshake.pb.h>

#include "wire/handshake.h"

namespace rookery::wire {
namespace {

constexpr std::size_t kMaxContactBytes = 4096;

}  // namespace

bool is_address(std::string_view text) {
  const auto fits = [](char c) { return c > ' ' && c < 0x7f; };
  return !text.empty() && text.size() <= kMaxAddressBytes && std::ranges::all_of(text, fits);
}

std::vector<std::byte> encode(const Contact& contact) {
  proto::Contact message;
  message.set_name(contact.name);
  message.set_fingerprint(contact.fingerprint.data(), contact.fingerprint.size());
  for (const std::string& address : contact.addresses) message.add_addresses(address);
  std::vector<std::byte> bytes(message.ByteSizeLong());
  message.SerializeToArray(bytes.data(), static_cast<int>(bytes.size()));
  return bytes;
}

Contact decode_contact(std::span<const std::byte> bytes) {
  proto::Contact message;
  const bool parsed =
      bytes.size() <= kMaxContactBytes && message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
  Contact contact;
  if (!parsed || !is_name(message.name()) || message.fingerprint().size() != contact.fingerprint.size()) {
    throw WireError("a contact that cannot be read");
  }
  contact.name = message.name();
  std::ranges::copy(std::as_bytes(std::span(message.fingerprint())), contact.fingerprint.begin());
  contact.addresses.assign(message.addresses().begin(), message.addresses().end());
  if (contact.addresses.size() > kMaxAddresses || !std::ranges::all_of(contact.addresses, is_address)) {
    throw WireError("a contact with addresses that are none");
  }
  return contact;
}

}  // namespace rookery::wire
