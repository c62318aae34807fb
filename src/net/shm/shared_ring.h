#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "net/shm/descriptor.h"
#include "net/shm/loans.h"

namespace rookery::net::internal {

// The bookkeeping of a ring of bytes between two processes, as it lies in shared memory. One writes, one reads; neither
// trusts the other's numbers.
//
// `written` and `read` count bytes from the beginning and never go back. Whoever finds nothing to do goes to sleep:
// sets its state, looks once more, and waits for its bell. The other finds it asleep after its next step, and rings.
struct RingControl {
  enum State : std::uint32_t { kAwake, kAsleep, kRung };  // rung: woken, but has not got its turn yet

  alignas(64) std::atomic<std::uint64_t> written{0};
  alignas(64) std::atomic<std::uint64_t> read{0};
  alignas(64) std::atomic<std::uint32_t> reader{kAwake};
  alignas(64) std::atomic<std::uint32_t> writer{kAwake};
  alignas(64) std::atomic<std::uint32_t> writer_closed{0};
  alignas(64) std::atomic<std::uint32_t> reader_closed{0};
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free && std::atomic<std::uint32_t>::is_always_lock_free);

// The memory that two processes share: for each direction a control, loans, and a ring of bytes. Each ring is mapped
// twice in a row, so that any bytes in it can be seen as one span.
class SharedRings {
 public:
  static constexpr std::size_t kRingBytes = 1024 * 1024;

  // New memory. Throws Error if the system has none.
  static Descriptor create();

  // Maps what create() made, here or in another process. Throws LinkError unless the memory has the size that it should
  // have, and can not be taken away again.
  explicit SharedRings(const Descriptor& memory);
  ~SharedRings();
  SharedRings(const SharedRings&) = delete;
  SharedRings& operator=(const SharedRings&) = delete;

  RingControl& control(int direction) { return directions_[direction].ring; }
  LoanControl& loans(int direction) { return directions_[direction].loans; }
  std::byte* bytes(int direction) { return rings_[direction]; }  // 2 * kRingBytes, the halves the same

 private:
  struct Direction {
    RingControl ring;
    LoanControl loans;
  };
  static constexpr std::size_t kControlBytes = 8192;
  static_assert(2 * sizeof(Direction) <= kControlBytes);
  static constexpr std::size_t kTotalBytes = kControlBytes + 2 * kRingBytes;

  Direction* directions_ = nullptr;
  std::byte* rings_[2] = {nullptr, nullptr};
};

}  // namespace rookery::net::internal
