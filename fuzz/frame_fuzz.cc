// Whatever the bytes: refused, or a header that encodes to exactly them.
#include <cstdlib>

#include "wire/frame.h"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  using namespace rookery::wire;
  if (size < kFrameHeaderBytes) return 0;
  const auto bytes = std::as_bytes(std::span(data, size)).first<kFrameHeaderBytes>();
  try {
    const FrameHeaderBytes again = encode(decode_frame_header(bytes));
    if (!std::equal(again.begin(), again.end(), bytes.begin())) std::abort();
  } catch (const WireError&) {
  }
  return 0;
}
