#include "net/shm/memory_file.h"

#include <cerrno>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/units.h"
#include "net/error.h"

namespace rookery::net::internal {
namespace {

constexpr int kSizeSeals = F_SEAL_SHRINK | F_SEAL_GROW;

[[noreturn]] void fail(const char* what, std::size_t bytes) {
  throw Error("{} of {} of shared memory failed: {}", what, format_bytes(static_cast<Bytes>(bytes)),
              std::system_category().message(errno));
}

}  // namespace

Descriptor create_memory_file(std::size_t bytes) {
  Descriptor file(::memfd_create("rookery", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (file.get() < 0) fail("allocation", bytes);
  // Allocated now: a lack of memory is an error here, and would be the end of the process later.
  int failed = 0;
  do {
    failed = ::fallocate(file.get(), 0, 0, static_cast<off_t>(bytes));
  } while (failed != 0 && errno == EINTR);
  if (failed != 0) fail("allocation", bytes);
  if (::fcntl(file.get(), F_ADD_SEALS, kSizeSeals) != 0) fail("sealing", bytes);
  return file;
}

void forbid_writing(const Descriptor& file) {
  if (::fcntl(file.get(), F_ADD_SEALS, F_SEAL_FUTURE_WRITE) != 0) fail("sealing", 0);
}

std::size_t memory_file_size(const Descriptor& file, Access access) {
  struct stat facts {};
  struct statfs system {};
  const int seals = ::fcntl(file.get(), F_GET_SEALS);
  const int wanted = kSizeSeals | (access == Access::kRead ? F_SEAL_FUTURE_WRITE : 0);
  if (::fstat(file.get(), &facts) != 0 || ::fstatfs(file.get(), &system) != 0 || system.f_type != TMPFS_MAGIC ||
      seals < 0 || (seals & wanted) != wanted) {
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
  void* memory = ::mmap(nullptr, bytes, protection, MAP_SHARED, file.get(), static_cast<off_t>(offset));
  if (memory == MAP_FAILED) fail("mapping", bytes);
  bytes_ = MutableBytes(static_cast<std::byte*>(memory), bytes);
}

Mapping::~Mapping() {
  if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
}

Mapping::Mapping(Mapping&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

}  // namespace rookery::net::internal
