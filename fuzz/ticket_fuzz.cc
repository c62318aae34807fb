// Whatever the text: refused, or a ticket that survives the round trip. Text that does not begin like a ticket is given
// its beginning, and then the checksum of what follows, so that the parser behind them is reached.
#include <cstdlib>

#include "base/file.h"
#include "wire/ticket.h"

namespace {

void check(std::string_view text) {
  using namespace rookery::wire;
  try {
    const Ticket ticket = parse_ticket(text);
    if (parse_ticket(to_text(ticket)) != ticket) std::abort();
  } catch (const WireError&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  check(text);
  check("rookery-" + text);
  const std::string whole = rookery::digest(std::as_bytes(std::span(text))).substr(0, 8) + text;
  static constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  std::string encoded = "rookery-";
  unsigned bits = 0, count = 0;
  for (const char c : whole) {
    bits = (bits << 8) | static_cast<unsigned char>(c);
    for (count += 8; count >= 6; count -= 6) encoded += kDigits[(bits >> (count - 6)) & 63];
  }
  if (count > 0) encoded += kDigits[(bits << (6 - count)) & 63];
  check(encoded);
  return 0;
}
