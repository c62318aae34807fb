// Whatever the bytes: refused, or a message that survives the round trip. The first byte chooses the kind.
#include <cstdlib>

#include "wire/handshake.h"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  using namespace rookery::wire;
  if (size == 0) return 0;
  const auto bytes = std::as_bytes(std::span(data, size));
  try {
    if (size >= kPreambleBytes) decode_preamble(bytes.first<kPreambleBytes>());
  } catch (const WireError&) {
  }
  try {
    const HandshakeMessage message = decode_handshake(data[0] % 6, bytes.subspan(1));
    const Bytes again = encode(message);
    const Preamble preamble = decode_preamble(std::span(again).first<kPreambleBytes>());
    if (decode_handshake(preamble.kind, std::span(again).subspan(kPreambleBytes)) != message) std::abort();
  } catch (const WireError&) {
  }
  return 0;
}
