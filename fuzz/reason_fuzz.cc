// Whatever the bytes: refused, or a reason that survives the round trip as far as its limits allow.
#include <cstdlib>

#include "wire/frame.h"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  using namespace rookery::wire;
  try {
    const Reason reason = decode_reason(std::as_bytes(std::span(data, size)));
    const Reason again = decode_reason(encode(reason));
    if (again.code != reason.code || again.culprit != reason.culprit || !reason.text.starts_with(again.text))
      std::abort();
    if (size <= kMaxReasonBytes && again.text != reason.text) std::abort();
  } catch (const WireError&) {
  }
  return 0;
}
