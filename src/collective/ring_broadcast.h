#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "base/clock.h"
#include "collective/ring.h"

namespace rookery::collective {

struct BroadcastOptions {
  std::size_t chunk_bytes = 256 * 1024;       // the same on every peer
  Duration stall = std::chrono::seconds(30);  // how long nothing may move once it has begun to arrive
};

// Copies one peer's bytes to all others, chunk by chunk along the ring: every link carries them once, and all at the
// same time.
class RingBroadcast {
 public:
  RingBroadcast(Clock& clock, Ring ring, net::ChannelId channel, BroadcastOptions options);
  ~RingBroadcast();
  RingBroadcast(const RingBroadcast&) = delete;
  RingBroadcast& operator=(const RingBroadcast&) = delete;

  // Requires: every peer passes as many bytes and the same root; one at a time. The root is done when its neighbour is
  // being sent the last bytes, not when all have them. Throws LinkError when a peer fails or is late, with the name of
  // the one that failed; `bytes` are then unspecified except at the root, and the object is of no more use.
  Task<> run(std::span<std::byte> bytes, std::size_t root);

  void cancel(const net::LinkError& reason);

 private:
  struct Operations;

  Task<> begin(std::span<std::byte> bytes, Operations& operations);
  Task<> pass_on(std::span<std::byte> bytes, bool is_last, Operations& operations);
  Task<> send(std::span<std::byte> chunk, Operations& operations);

  net::Channel& in() { return from_previous_ ? *from_previous_ : *to_next_; }

  Clock& clock_;
  Ring ring_;
  BroadcastOptions options_;
  std::unique_ptr<net::Channel> to_next_, from_previous_;  // the latter is empty in a ring of two
};

// Every peer's block, on every peer: a broadcast of each, all at once. Each peer sends P-1 blocks.
class RingAllGather {
 public:
  // Channels `first`, `first` + 1, … (one for each peer) belong to it.
  RingAllGather(Clock& clock, Ring ring, net::ChannelId first, BroadcastOptions options);

  // `all` has the blocks in order of rank, each of all.size() / P bytes; this peer's own is filled in. Requires and
  // throws as a broadcast does.
  Task<> run(std::span<std::byte> all);

  // Returns when all peers have come here.
  Task<> barrier();

  void cancel(const net::LinkError& reason);

 private:
  Clock& clock_;
  Ring ring_;
  std::vector<std::unique_ptr<RingBroadcast>> broadcasts_;
};

}  // namespace rookery::collective
