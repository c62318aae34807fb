#pragma once

#include <map>
#include <string>
#include <vector>

#include "plan/runtime.h"

namespace rookery::plan::internal {

// What a pass over the parameters takes, as a share of an update.
constexpr double kPassShare = 0.25;

// How the peers of one computer share its processors and caches. Each computes for a share of the time, less than all
// of it if it is slowed down anyway; if they want more than there is, whoever computes takes longer, until it fits.
class Processors {
 public:
  Processors(const Job& job, const Swarm& swarm, const Candidate& candidate);

  // How much longer than alone a peer's micro-batches take; and whatever it does at full speed, however slow it is
  // asked to be.
  double slowdown(std::size_t peer) const { return shares_[peer].slowdown; }
  double slowdown_at_full_speed(std::size_t peer) const { return shares_[peer].at_full_speed; }

  // What a drawn variation of the time that a peer pretends to take makes of the time that it takes.
  double varied(std::size_t peer, double factor) const;

  // Where all processors compute, whoever receives something waits for one before it can pass it on.
  double wait_for_one() const;

  // What rounds and borders take of processors that have something else to do makes a step longer by so much.
  // `bytes_sent`: by each peer in a step.
  double network_work(const std::vector<double>& bytes_sent, double step_seconds) const;

 private:
  struct Share {
    double slowdown = 1, at_full_speed = 1;
    double asked = 1, least = 0;  // of what it takes: by the pace that it keeps, and what it has to compute
  };

  const Swarm& swarm_;
  std::vector<Share> shares_;           // of each peer
  std::map<std::string, double> idle_;  // cores, by processors
};

}  // namespace rookery::plan::internal
