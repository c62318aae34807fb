#pragma once

#include <cstddef>

#include "net/pipe.h"
#include "net/shm/descriptor.h"

namespace rookery::net::internal {

// Memory as a file that another process can map. It has one size for good: otherwise the other process could shrink it,
// and every access here would be a fault.

// New memory, all zeros. Throws Error if the system has none.
Descriptor create_memory_file(std::size_t bytes);

// From now on nobody can map it for writing, or punch holes into it; those who have mapped it already may write on.
void forbid_writing(const Descriptor& file);

enum class Access { kRead, kReadAndWrite };

// The size of what another process calls such a file, to be used like this. Throws LinkError if its size could change;
// or, if it is only for reading, what is behind it.
std::size_t memory_file_size(const Descriptor& file, Access access);

// A range of such a file in this process, while this lives. Throws Error if it cannot be mapped.
class Mapping {
 public:
  Mapping(const Descriptor& file, std::size_t offset, std::size_t bytes, Access access);
  ~Mapping();
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&&) = delete;

  MutableBytes bytes() const { return bytes_; }

 private:
  MutableBytes bytes_;
};

}  // namespace rookery::net::internal
