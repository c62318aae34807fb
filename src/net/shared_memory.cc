#include "net/shared_memory.h"

#include "base/error.h"
#include "net/shm/memory_file.h"

namespace rookery::net {

struct SharedMemory::Parts {
  explicit Parts(std::size_t bytes)
      : file(internal::create_memory_file(bytes)), mapping(file, 0, bytes, internal::Access::kReadAndWrite) {
    internal::forbid_writing(file);  // whoever is shown it may read
  }

  internal::Descriptor file;
  internal::Mapping mapping;
};

SharedMemory::SharedMemory(std::size_t bytes) {
  ROOKERY_CHECK(bytes > 0);
  parts_ = std::make_unique<Parts>(bytes);
}

SharedMemory::~SharedMemory() = default;

MutableBytes SharedMemory::bytes() const { return parts_->mapping.bytes(); }

const internal::Descriptor& SharedMemory::file() const { return parts_->file; }

}  // namespace rookery::net
