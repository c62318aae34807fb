#include "base/heap.h"

#include <cstdint>
#include <cstdlib>
#include <malloc.h>
#include <sys/mman.h>

namespace rookery {
namespace {

constexpr std::uintptr_t kLargePage = 2 << 20;
constexpr int kMaps = 65536;  // malloc's own default: blocks that are mapped by themselves

}  // namespace

// One block of the heap as a whole, marked and freed: what malloc gives out next lies within it.
void prefer_large_pages(std::size_t bytes) {
  ::mallopt(M_TRIM_THRESHOLD, -1);  // never
  ::mallopt(M_MMAP_MAX, 0);
  void* const block = std::malloc(bytes);
  ::mallopt(M_MMAP_MAX, kMaps);
  if (block == nullptr) return;
  prefer_large_pages(std::span(static_cast<std::byte*>(block), bytes));
  std::free(block);
}

void prefer_large_pages(std::span<std::byte> unused) {
  const auto begin = reinterpret_cast<std::uintptr_t>(unused.data()), end = begin + unused.size();
  const std::uintptr_t first = (begin + kLargePage - 1) / kLargePage * kLargePage, last = end / kLargePage * kLargePage;
  if (last > first) ::madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
}

}  // namespace rookery
