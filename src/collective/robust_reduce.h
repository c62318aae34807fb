#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "base/clock.h"
#include "collective/robust_mean.h"
#include "net/link.h"

namespace rookery::collective {

struct RobustReduceOptions {
  Robust rule = Robust::kTrimmedMean;
  std::size_t chunk_bytes = 64 * 1024;        // of floats; the same on every member
  Duration stall = std::chrono::seconds(30);  // how long nothing may move once every member takes part
};

// Those who have a link to every other.
struct Circle {
  std::size_t rank = 0;             // of this one
  std::vector<net::Link*> links{};  // by rank; nullptr for this one. They outlive everything that runs on them
  std::vector<float> weights{};     // in the mean, by rank; the same on every member
};

// Means that a few who send nonsense cannot sway, again and again, among the same members.
//
// A ring shows its members only partial sums, in which nobody can be told from the others. So here every member sends
// each piece of its values straight to the piece's owner, the member of that rank. The owner sees what everybody
// brings, takes a RobustMean of it, and sends the result to all. Chunk by chunk: the result of one travels while others
// are still collected. Each member sends 2(P-1)/P of the values, as in a ring; it needs memory for a few chunks of
// everybody.
//
// Every mean is computed by one member and copied to the others, so all end with the same bits. Whoever owns a piece
// decides on it: a member that lies as an owner is beyond what this can find.
class RobustReduce {
 public:
  // Channels `first` and `first` + 1 belong to it, under the same id on all links.
  RobustReduce(Clock& clock, Circle circle, net::ChannelId first, RobustReduceOptions options);
  ~RobustReduce();
  RobustReduce(const RobustReduce&) = delete;
  RobustReduce& operator=(const RobustReduce&) = delete;

  // Ends with the mean in `values`. Returns what was found about the other members in this member's own piece.
  // Requires: every member passes as many values; one round at a time; the memory stays until it ends.
  //
  // Throws LinkError when a member fails or is late, at every other member, with the name of the one that failed.
  // Values are then unspecified, and the object is of no more use.
  Task<std::vector<Finding>> run(std::span<float> values);

  // Ends a round that is running, on all members, and all later ones. Its memory is not touched from then on.
  void cancel(const net::LinkError& reason);

 private:
  class Round;

  Clock& clock_;
  Circle circle_;
  RobustReduceOptions options_;
  std::vector<std::unique_ptr<net::Channel>> contributions_, results_;  // by rank
  std::shared_ptr<const net::LinkError> cancelled_;
};

}  // namespace rookery::collective
