#pragma once

#include <cstddef>

namespace rookery {

// Lets malloc grow within `bytes` of addresses that the system may back with large pages; memory is taken only as it is
// used. Whoever goes through gigabytes of small objects then waits less for page tables. Call it early, from the main
// thread. Without effect if the system does not give that much, or has no large pages.
void prefer_large_pages(std::size_t bytes);

}  // namespace rookery
