#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/task.h"
#include "plan/topology.h"

namespace rookery::sync {

// An averaging operation that is under way. Confined to the executor of whoever started it.
class Round {
 public:
  virtual ~Round() = default;

  // Waits for the end. The values are then what they should be, and the caller's again. Throws LinkError if a peer
  // failed; what the values are then is not specified.
  virtual Task<> finish() = 0;

  // finish() would not wait.
  virtual bool has_ended() const = 0;
};

// Which round it is: rounds of different slots run at the same time; those of one slot one after another, in the same
// order on all peers. Where peers come and go, rounds of a slot have numbers that ascend, the same for all who take
// part.
struct Which {
  Which(std::size_t s, std::uint64_t n = 0, std::uint64_t after = 0) : slot(s), number(n), step(after) {}

  std::size_t slot;
  std::uint64_t number, step;  // how many steps were done when it began
};

// Where methods get their averages from: the holders of one segment, one in every cluster, in the order of their ranks.
// The collectives may run on another executor and thread than the methods.
//
// Letting go of a round that has not finished ends it with a failure, everywhere.
class Rounds {
 public:
  virtual ~Rounds() = default;

  virtual std::size_t rank() const = 0;
  virtual std::size_t peers() const = 0;

  // Everybody ends with the sum of share * values over all peers, to the same bit. The memory is the round's until it
  // has finished. Requires: the shares of all peers add up to 1; slot < the number of slots there are.
  // `lost`: with a lossy codec, what the slot's last round lost here, and afterwards what this one did; may be empty.
  virtual std::unique_ptr<Round> average(Which which, std::span<float> values, float share, std::span<float> lost) = 0;

  // Everybody in this peer's group ends with its mix, after so many steps. Requires: all members pass the same members.
  virtual std::unique_ptr<Round> mix(std::uint64_t step, std::span<float> values, const plan::Mix& mix) = 0;
};

}  // namespace rookery::sync
