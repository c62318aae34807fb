// Whatever the bytes: refused, or a message that survives the round trip.
#include <cstdlib>

#include "wire/swarm_message.h"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  using namespace rookery::wire;
  try {
    const std::vector<std::byte> once = encode(decode_swarm_message(std::as_bytes(std::span(data, size))));
    if (encode(decode_swarm_message(once)) != once) std::abort();  // as bytes: a loss may be no number
  } catch (const WireError&) {
  }
  return 0;
}
