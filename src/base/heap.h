#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace rookery {

// Lets malloc grow within `bytes` of addresses that the system may back with large pages; memory is taken only as it is
// used. Whoever goes through gigabytes of small objects then waits less for page tables. Call it early, from the main
// thread. Without effect if the system does not give that much, or has no large pages.
void prefer_large_pages(std::size_t bytes);

// Lets the system back memory that nobody has used yet with large pages, as far as whole ones lie in it. Its first use
// then takes the kernel a tenth of the time. Without effect if there are none.
void prefer_large_pages(std::span<std::byte> unused);

// Makes room for as many values, in memory like that.
template <typename T>
void reserve_large(std::vector<T>& values, std::size_t count) {
  if (values.capacity() >= count) return;
  values.reserve(count);
  prefer_large_pages(std::span(reinterpret_cast<std::byte*>(values.data() + values.size()),
                               (values.capacity() - values.size()) * sizeof(T)));
}

}  // namespace rookery
