// Whatever the bytes: refused, or a contact that survives the round trip.
#include <cstdlib>

#include "wire/contact.h"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  using namespace rookery::wire;
  try {
    const Contact contact = decode_contact(std::as_bytes(std::span(data, size)));
    if (decode_contact(encode(contact)) != contact) std::abort();
  } catch (const WireError&) {
  }
  return 0;
}
