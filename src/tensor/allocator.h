#pragma once

#include "base/units.h"

namespace rookery {

// Gives libtorch's CPU tensors memory from huge pages that is kept for reuse.
//
// glibc returns large blocks to the kernel at every free, and a training step then spends its time in page faults. Here
// blocks from 64 KiB up are cut from arenas of 64 MiB or more that the kernel backs with huge pages; freed neighbours
// merge, and the best fit is taken. Smaller ones stay with malloc. Arenas are kept: the next step needs them again.
//
// Affects the whole process; call before the first tensor is made. Thread-safe afterwards.
void install_tensor_allocator();

// From now on arenas are as small as 8 MiB: for processes that have to do with little memory.
void use_small_arenas();

// Gives back what is free to the system, as far as that can be: after something that needed more than what follows.
void trim_tensor_memory();

struct AllocatorStatistics {
  Bytes reserved;  // in arenas
  Bytes used;      // handed out, from arenas or not
};
AllocatorStatistics allocator_statistics();

}  // namespace rookery
