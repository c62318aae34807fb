#include "wire/ticket.h"

#include <algorithm>
#include <proto/handshake.pb.h>

#include "base/file.h"

namespace rookery::wire {
namespace {

constexpr std::string_view kPrefix = "rookery-";
constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
constexpr std::size_t kChecksumDigits = 8;  // of SHA-256, in hexadecimal
constexpr std::size_t kMaxText = 8192;

// Base64 for URLs, without padding. Each digit has six bits, the first the highest.
std::string encode_base64(std::string_view bytes) {
  std::string text;
  unsigned bits = 0, count = 0;
  for (const char byte : bytes) {
    bits = (bits << 8) | static_cast<unsigned char>(byte);
    for (count += 8; count >= 6; count -= 6) text += kDigits[(bits >> (count - 6)) & 63];
  }
  if (count > 0) text += kDigits[(bits << (6 - count)) & 63];
  return text;
}

// False if there is another character, or bits are left that no encoder leaves.
bool decode_base64(std::string_view text, std::string& bytes) {
  unsigned bits = 0, count = 0;
  for (const char c : text) {
    const std::size_t digit = kDigits.find(c);
    if (digit == std::string_view::npos) return false;
    bits = (bits << 6) | static_cast<unsigned>(digit);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>((bits >> count) & 255);
  }
  return count < 6 && (bits & ((1u << count) - 1)) == 0;
}

std::string checksum(std::string_view content) {
  return digest(std::as_bytes(std::span(content))).substr(0, kChecksumDigits);
}

template <std::size_t N>
bool copy_exactly(const std::string& from, std::array<std::byte, N>& to) {
  if (from.size() != N) return false;
  std::ranges::copy(std::as_bytes(std::span(from)), to.begin());
  return true;
}

std::string_view trimmed(std::string_view text) {
  const auto is_space = [](char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; };
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

}  // namespace

std::string to_text(const Ticket& ticket) {
  proto::Ticket message;
  for (const std::string& address : ticket.addresses) message.add_addresses(address);
  message.set_fingerprint(ticket.fingerprint.data(), ticket.fingerprint.size());
  message.set_secret(ticket.secret.data(), ticket.secret.size());
  message.set_expires(ticket.expires);
  const std::string content = message.SerializeAsString();
  return std::string(kPrefix) + encode_base64(checksum(content) + content);
}

Ticket parse_ticket(std::string_view text) {
  text = trimmed(text);
  if (!text.starts_with(kPrefix)) throw WireError("this is no ticket; a ticket starts with '{}'", kPrefix);
  const auto damaged = [] {
    return WireError("the ticket is damaged; copy it once more, from its first letter to its last");
  };
  std::string bytes;
  if (text.size() > kMaxText || !decode_base64(text.substr(kPrefix.size()), bytes)) throw damaged();
  if (bytes.size() < kChecksumDigits) throw damaged();
  const std::string content = bytes.substr(kChecksumDigits);
  if (checksum(content) != bytes.substr(0, kChecksumDigits)) throw damaged();

  proto::Ticket message;
  Ticket ticket;
  if (!message.ParseFromString(content) || !copy_exactly(message.fingerprint(), ticket.fingerprint) ||
      !copy_exactly(message.secret(), ticket.secret)) {
    throw damaged();
  }
  ticket.addresses.assign(message.addresses().begin(), message.addresses().end());
  ticket.expires = message.expires();
  const bool fits = !ticket.addresses.empty() && ticket.addresses.size() <= kMaxAddresses &&
                    std::ranges::all_of(ticket.addresses, is_address);
  if (!fits) throw damaged();
  return ticket;
}

}  // namespace rookery::wire
