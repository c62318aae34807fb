#pragma once

#include "base/units.h"

namespace rookery::observe {

// The largest resident memory this process has had so far, as the kernel counts it (VmHWM).
Bytes peak_memory();

// From now on peak_memory() counts anew, where the kernel allows it.
void forget_peak_memory();

// The resident memory that it has now (VmRSS).
Bytes resident_memory();

// What this process could still have before the computer runs short (MemAvailable), or the container that it is in.
Bytes available_memory();

}  // namespace rookery::observe
