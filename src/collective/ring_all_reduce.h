#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "base/clock.h"
#include "collective/codec.h"
#include "collective/ring.h"

namespace rookery::collective {

struct AllReduceOptions {
  Codec codec = Codec::kNone;
  std::size_t chunk_bytes = 256 * 1024;       // of floats; the same on every peer
  Duration stall = std::chrono::seconds(30);  // how long nothing may move once every peer takes part
};

// One round's numbers, in and out.
struct Contribution {
  std::span<float> values;  // in: this peer's; out: the result
  float weight = 1;         // the result is the sum of weight * values over all peers
  std::span<float> lost{};  // lossy codecs: in: what the last round lost here; out: what this one did. May be empty
};

// Sums over a ring, again and again, with the same neighbours.
//
// Words: the values are cut into as many pieces as there are peers, and each piece into chunks. In step s of 2(P-1) the
// peer of rank r sends piece r-s (mod P) to the next one. In the first P-1 steps, the reduce-scatter, whoever receives
// a chunk adds its own to it, so that after them every piece is finished somewhere; in the others, the all-gather,
// finished pieces travel on unchanged. Each step has a channel of its own and works chunk by chunk, so all steps
// overlap: a chunk is sent on while it is still in the cache. Each peer sends 2(P-1)/P of the values.
//
// Every sum is computed by one peer and copied to the others, so all peers end with the same bits, with every codec.
// The order of a sum depends on ranks only.
//
// With a lossy codec each hop decodes, adds in 32 bits and encodes again. `lost` is what this peer's encoding took
// away: it is added to its next contribution, and the results together with all that is still `lost` conserve the sum.
class RingAllReduce {
 public:
  // Channels `first`, `first` + 1, … (2(P-1) of them) belong to it, under the same id on all peers.
  RingAllReduce(Clock& clock, Ring ring, net::ChannelId first, AllReduceOptions options);
  ~RingAllReduce();
  RingAllReduce(const RingAllReduce&) = delete;
  RingAllReduce& operator=(const RingAllReduce&) = delete;

  // Requires: every peer passes as many values; one round at a time; the memory stays until it ends.
  //
  // Throws LinkError when a peer fails or is late, at every other peer, with the name of the one that failed. Values
  // and `lost` are then unspecified, and the object is of no more use.
  Task<> run(Contribution contribution);

  // The two halves of run(), between which peers may change their own pieces: after the first, a peer's own piece has
  // the sum, and the rest of its values are unspecified; after the second, everybody has the own pieces of all. What a
  // codec takes away from own pieces in the second is not kept.
  Task<> reduce_scatter(Contribution contribution);
  Task<> all_gather(std::span<float> values);

  // The part of the values that is this peer's own.
  std::span<float> own_piece(std::span<float> values) const;

  // Ends a round that is running, on all peers, and all later ones. Its memory is not touched from then on.
  void cancel(const net::LinkError& reason);

 private:
  class Round;
  enum class Half { kBoth, kReduceScatter, kAllGather };

  Task<> run(Contribution contribution, Half half);
  std::size_t finished_piece() const { return (ring_.rank + 1) % ring_.size; }

  Clock& clock_;
  Ring ring_;
  AllReduceOptions options_;
  std::vector<std::unique_ptr<net::Channel>> to_next_;        // one for each step
  std::vector<std::unique_ptr<net::Channel>> from_previous_;  // empty in a ring of two, where they are the same
  std::shared_ptr<const net::LinkError> cancelled_;
};

}  // namespace rookery::collective
