// Whatever the bytes: refused, or a header that survives the round trip. Squares may be no numbers, so bytes are
// compared.
#include <cstdlib>

#include "wire/border.h"
#include "wire/frame.h"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  using namespace rookery::wire;
  try {
    std::size_t taken = 0;
    const auto once = encode(decode_border_header(std::as_bytes(std::span(data, size)), taken));
    if (taken > size || encode(decode_border_header(once, taken)) != once || taken != once.size()) std::abort();
  } catch (const WireError&) {
  }
  return 0;
}
