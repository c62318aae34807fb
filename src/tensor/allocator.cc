#include "tensor/allocator.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <malloc.h>
#include <map>
#include <mutex>
#include <set>
#include <sys/mman.h>

#include <c10/core/CPUAllocator.h>

#include "base/error.h"

namespace rookery {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kHugePage = 2 << 20;
constexpr std::size_t kSmallest = 64 << 10;  // below this malloc is as good
constexpr std::size_t kArena = 64 << 20, kSmallArena = 8 << 20;

std::atomic<std::size_t> arena_size = kArena;

std::size_t rounded_up(std::size_t n, std::size_t unit) { return (n + unit - 1) / unit * unit; }

[[noreturn]] void out_of_memory(std::size_t size) {
  throw Error("out of memory: cannot get {} for a tensor; use a smaller batch or model",
              format_bytes(static_cast<Bytes>(size)));
}

// Blocks of memory by address; a block is free or used, and no two free neighbours lie in one arena.
//
// A mutex, because libtorch frees tensors on whatever thread drops the last reference.
class Arenas {
 public:
  void* allocate(std::size_t size) {
    const std::lock_guard lock(mutex_);
    size = rounded_up(size, kAlignment);
    auto found = free_.lower_bound({size, nullptr});
    if (found == free_.end()) {
      add_arena(std::max(arena_size.load(), rounded_up(size, kHugePage)));
      found = free_.lower_bound({size, nullptr});
    }
    const auto [block_size, address] = *found;
    free_.erase(found);
    blocks_[address] = {size, true};
    if (block_size > size) add_free(address + size, block_size - size);
    used_ += size;
    return address;
  }

  // False if the pointer did not come from here.
  bool release(void* pointer) {
    const std::lock_guard lock(mutex_);
    auto block = blocks_.find(static_cast<char*>(pointer));
    if (block == blocks_.end() || !block->second.used) return false;
    used_ -= block->second.size;
    block->second.used = false;
    block = merged_with_next(block);
    if (block != blocks_.begin() && !arenas_.contains(block->first)) {
      const auto previous = std::prev(block);
      if (!previous->second.used) {
        free_.erase({previous->second.size, previous->first});
        block = merged_with_next(previous);
      }
    }
    free_.insert({block->second.size, block->first});
    return true;
  }

  // Gives arenas that nobody uses back to the system.
  void trim() {
    const std::lock_guard lock(mutex_);
    for (auto arena = arenas_.begin(); arena != arenas_.end();) {
      const auto [begin, size] = *arena;
      const auto block = blocks_.find(begin);
      if (block->second.used || block->second.size < size) {
        ++arena;
        continue;
      }
      free_.erase({size, begin});
      blocks_.erase(block);
      arena = arenas_.erase(arena);
      reserved_ -= size;
      ::munmap(begin, size);
    }
  }

  AllocatorStatistics statistics() {
    const std::lock_guard lock(mutex_);
    return {static_cast<Bytes>(reserved_), static_cast<Bytes>(used_)};
  }

 private:
  struct Block {
    std::size_t size;
    bool used;
  };
  using Blocks = std::map<char*, Block>;

  void add_free(char* address, std::size_t size) {
    blocks_[address] = {size, false};
    free_.insert({size, address});
  }

  // Absorbs the following block if it is free and in the same arena. The block itself is not in free_.
  Blocks::iterator merged_with_next(Blocks::iterator block) {
    const auto next = std::next(block);
    if (next == blocks_.end() || next->second.used || arenas_.contains(next->first)) return block;
    free_.erase({next->second.size, next->first});
    block->second.size += next->second.size;
    blocks_.erase(next);
    return block;
  }

  void add_arena(std::size_t size) {
    // One huge page more than needed, so that an aligned range of the right size lies inside.
    void* raw = ::mmap(nullptr, size + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (raw == MAP_FAILED) out_of_memory(size);
    auto* begin = static_cast<char*>(raw);
    auto* aligned = reinterpret_cast<char*>(rounded_up(reinterpret_cast<std::uintptr_t>(raw), kHugePage));
    if (aligned != begin) ::munmap(begin, static_cast<std::size_t>(aligned - begin));
    const std::size_t rest = kHugePage - static_cast<std::size_t>(aligned - begin);
    if (rest != 0) ::munmap(aligned + size, rest);
    ::madvise(aligned, size, MADV_HUGEPAGE);
    arenas_[aligned] = size;
    reserved_ += size;
    add_free(aligned, size);
  }

  std::mutex mutex_;
  Blocks blocks_;
  std::set<std::pair<std::size_t, char*>> free_;  // by size, then address: the best fit is a lower bound
  std::map<char*, std::size_t> arenas_;
  std::size_t reserved_ = 0, used_ = 0;
};

// Never destroyed: tensors with static lifetime may outlive everything.
Arenas& arenas() {
  static auto* instance = new Arenas;
  return *instance;
}

std::atomic<std::size_t> small_used = 0;

// Malloc's block begins one alignment before the tensor's and says there how large it is: what malloc itself says of
// a block's size depends on the address that it happens to have.
void* allocate_small(std::size_t size) {
  const std::size_t whole = kAlignment + rounded_up(size, kAlignment);
  void* block = nullptr;
  if (::posix_memalign(&block, kAlignment, whole) != 0) out_of_memory(size);
  *static_cast<std::size_t*>(block) = whole;
  small_used += whole;
  return static_cast<char*>(block) + kAlignment;
}

void release_large(void* pointer) { ROOKERY_CHECK(arenas().release(pointer)); }
void release_small(void* pointer) {
  void* block = static_cast<char*>(pointer) - kAlignment;
  small_used -= *static_cast<std::size_t*>(block);
  std::free(block);
}
void release_any(void* pointer) {
  if (pointer != nullptr && !arenas().release(pointer)) release_small(pointer);
}

class TensorAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t size) const override {
    if (size == 0) return {nullptr, c10::Device(c10::DeviceType::CPU)};
    if (size >= kSmallest) {
      void* pointer = arenas().allocate(size);
      return {pointer, pointer, &release_large, c10::Device(c10::DeviceType::CPU)};
    }
    void* pointer = allocate_small(size);
    return {pointer, pointer, &release_small, c10::Device(c10::DeviceType::CPU)};
  }

  // For those who keep a bare pointer, as oneDNN does.
  c10::DeleterFnPtr raw_deleter() const override { return &release_any; }
};

}  // namespace

void install_tensor_allocator() {
  static TensorAllocator allocator;
  constexpr std::uint8_t kAboveTheDefault = 1;
  c10::SetCPUAllocator(&allocator, kAboveTheDefault);
}

void use_small_arenas() { arena_size = kSmallArena; }

void trim_tensor_memory() {
  arenas().trim();
  ::malloc_trim(0);
}

AllocatorStatistics allocator_statistics() {
  AllocatorStatistics statistics = arenas().statistics();
  statistics.used += static_cast<Bytes>(small_used);
  return statistics;
}

}  // namespace rookery
