#include "net/shm/shared_ring.h"

#include <cerrno>
#include <new>
#include <sys/mman.h>
#include <system_error>

#include "base/error.h"
#include "net/error.h"
#include "net/shm/memory_file.h"

namespace rookery::net::internal {
namespace {

[[noreturn]] void fail(const char* what) { throw Error("{} failed: {}", what, std::system_category().message(errno)); }

void* map(void* where, std::size_t size, int fd, std::size_t offset) {
  const int flags = MAP_SHARED | MAP_POPULATE | (where != nullptr ? MAP_FIXED : 0);
  void* address = ::mmap(where, size, PROT_READ | PROT_WRITE, flags, fd, static_cast<off_t>(offset));
  if (address == MAP_FAILED) fail("mmap of shared memory");
  return address;
}

}  // namespace

Descriptor SharedRings::create() { return create_memory_file(kTotalBytes); }

SharedRings::SharedRings(const Descriptor& memory) {
  if (memory_file_size(memory, Access::kReadAndWrite) != kTotalBytes) {
    throw LinkError(Failure::kProtocol, "", "offered shared memory of the wrong size");
  }
  // Fresh memory is zero, which is what the controls start from; nobody constructs them a second time.
  directions_ = std::launder(static_cast<Direction*>(map(nullptr, kControlBytes, memory.get(), 0)));
  for (std::size_t i = 0; i < 2; ++i) {
    void* both = ::mmap(nullptr, 2 * kRingBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (both == MAP_FAILED) fail("mmap of shared memory");
    rings_[i] = static_cast<std::byte*>(both);
    const std::size_t offset = kControlBytes + i * kRingBytes;
    map(rings_[i], kRingBytes, memory.get(), offset);
    map(rings_[i] + kRingBytes, kRingBytes, memory.get(), offset);
  }
}

SharedRings::~SharedRings() {
  if (directions_ != nullptr) ::munmap(directions_, kControlBytes);
  for (std::byte* ring : rings_) {
    if (ring != nullptr) ::munmap(ring, 2 * kRingBytes);
  }
}

}  // namespace rookery::net::internal
