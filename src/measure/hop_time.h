#pragma once

namespace rookery::measure {

// Seconds from when a thread asks another one for something to when that one has begun with it, if it slept: the unit
// of all that is small and crosses threads and processes. The median of many; takes some 30 ms.
double hop_time();

}  // namespace rookery::measure
