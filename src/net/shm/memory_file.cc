#include "net/shm/memory_file.h"

#include <cerrno>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/units.h"
#include "net/error.h"

namespace rookery::net::internal {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

[[noreturn]] void fail(const char* what, std::size_t bytes) {
  throw Error("{} of {} of shared memory failed: {}", what, format_bytes(static_cast<Bytes>(bytes)),
              std::system_category().message(errno));
}

}  // namespace

Descriptor create_memory_file(std::size_t bytes) {
  Descriptor file(::memfd_create("rookery", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  // Allocated now: a lack of memory is an error here, and would be the end of the process later.
  if (file.get() < 0 || ::fallocate(file.get(), 0, 0, static_cast<off_t>(bytes)) != 0) fail("allocation", bytes);
  if (::fcntl(file.get(), F_ADD_SEALS, kSeals) != 0) fail("sealing", bytes);
  return file;
}

std::size_t memory_file_size(const Descriptor& file) {
  struct stat facts {};
  const int seals = ::fcntl(file.get(), F_GET_SEALS);
  if (::fstat(file.get(), &facts) != 0 || seals < 0 || (seals & kSeals) != kSeals) {
    throw LinkError(Failure::kProtocol, "", "offered shared memory without seals");
  }
  constexpr off_t kBlock = 512;
  // Otherwise reading it here would be what allocates it.
  if (facts.st_blocks < facts.st_size / kBlock) {
    throw LinkError(Failure::kProtocol, "", "offered shared memory that does not exist");
  }
  return static_cast<std::size_t>(facts.st_size);
}

Mapping::Mapping(const Descriptor& file, std::size_t offset, std::size_t bytes, Access access) {
  const int protection = access == Access::kRead ? PROT_READ : PROT_READ | PROT_WRITE;
  void* memory = ::mmap(nullptr, bytes, protection, MAP_SHARED | MAP_POPULATE, file.get(), static_cast<off_t>(offset));
  if (memory == MAP_FAILED) fail("mapping", bytes);
  bytes_ = MutableBytes(static_cast<std::byte*>(memory), bytes);
}

Mapping::~Mapping() {
  if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
}

Mapping::Mapping(Mapping&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

}  // namespace rookery::net::internal
