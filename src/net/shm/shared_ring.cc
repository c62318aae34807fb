#include "net/shm/shared_ring.h"

#include <cerrno>
#include <fcntl.h>
#include <new>
#include <sys/mman.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

#include "base/error.h"
#include "net/error.h"

namespace rookery::net::internal {
namespace {

constexpr std::size_t kControlBytes = 4096;
static_assert(2 * sizeof(RingControl) <= kControlBytes);
constexpr std::size_t kTotalBytes = kControlBytes + 2 * SharedRings::kRingBytes;
// Without these the other process could shrink the memory, and every access here would be a fault.
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

[[noreturn]] void fail(const char* what) { throw Error("{} failed: {}", what, std::system_category().message(errno)); }

void* map(void* where, std::size_t size, int fd, std::size_t offset) {
  const int flags = MAP_SHARED | MAP_POPULATE | (where != nullptr ? MAP_FIXED : 0);
  void* address = ::mmap(where, size, PROT_READ | PROT_WRITE, flags, fd, static_cast<off_t>(offset));
  if (address == MAP_FAILED) fail("mmap of shared memory");
  return address;
}

}  // namespace

Descriptor::~Descriptor() {
  if (fd_ >= 0) ::close(fd_);
}

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

int Descriptor::release() { return std::exchange(fd_, -1); }

Descriptor SharedRings::create() {
  Descriptor memory(::memfd_create("rookery-link", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (memory.get() < 0) fail("memfd_create");
  if (::ftruncate(memory.get(), kTotalBytes) != 0) fail("ftruncate of shared memory");
  if (::fcntl(memory.get(), F_ADD_SEALS, kSeals) != 0) fail("sealing of shared memory");
  return memory;
}

SharedRings::SharedRings(const Descriptor& memory) {
  struct stat facts {};
  const int seals = ::fcntl(memory.get(), F_GET_SEALS);
  if (::fstat(memory.get(), &facts) != 0 || facts.st_size != static_cast<off_t>(kTotalBytes) || seals < 0 ||
      (seals & kSeals) != kSeals) {
    throw LinkError(Failure::kProtocol, "", "offered shared memory of the wrong size, or without seals");
  }
  // Fresh memory is zero, which is what both controls start from; nobody constructs them a second time.
  controls_ = std::launder(static_cast<RingControl*>(map(nullptr, kControlBytes, memory.get(), 0)));
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
  if (controls_ != nullptr) ::munmap(controls_, kControlBytes);
  for (std::byte* ring : rings_) {
    if (ring != nullptr) ::munmap(ring, 2 * kRingBytes);
  }
}

}  // namespace rookery::net::internal
