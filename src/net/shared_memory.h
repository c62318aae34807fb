#pragma once

#include <cstddef>
#include <memory>

#include "net/pipe.h"

namespace rookery::net {

namespace internal {
class Descriptor;
}

// Memory that other processes of this host can be shown: over a link that shares it, what lies in it is not copied to
// be sent, but read by the other end where it lies.
class SharedMemory {
 public:
  // All zeros. Throws Error if there is not enough. Requires: bytes > 0
  explicit SharedMemory(std::size_t bytes);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  MutableBytes bytes() const;
  const internal::Descriptor& file() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace rookery::net
