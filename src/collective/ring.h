#pragma once

#include <cstddef>

#include "net/link.h"

namespace rookery::collective {

// This peer's place in a ring, and the links to its neighbours; for a ring of two both are the same link. The links
// outlive everything that runs on the ring.
struct Ring {
  std::size_t rank = 0;
  std::size_t size = 1;
  net::Link* previous = nullptr;
  net::Link* next = nullptr;
};

}  // namespace rookery::collective
