#pragma once

#include <vector>

#include "plan/topology.h"
#include "sync/method.h"

namespace rookery::sync {

enum class GossipMode {
  kCombineWhileComputing,  // the mix travels while the next gradient is computed
  kAdaptThenCombine,       // the step waits for it
};

struct GossipOptions {
  GossipMode mode = GossipMode::kCombineWhileComputing;
  double consensus = 1;   // γ: mixes with γW + (1-γ)I
  bool changing = false;  // peers come and go: an exchange that fails is left out
};

// Decentralized data parallelism: everybody mixes its parameters with a few others.
//
//   combine while computing:   x_i ← Σ_j W_ij x_j − η d(g_i), with g_i taken at the unmixed x_i
//   adapt then combine:        x_i ← Σ_j W_ij (x_j − η d(g_j))
//
// In the first, an exchange starts when a step ends and is needed when the next one has its gradients: it has a whole
// step to finish, which hides it, and absorbs jitter. Moments of the optimizer are never mixed. Taking over the mix,
// the update, and the snapshot for the next exchange are one pass over memory.
//
// Where peers come and go, whoever is lost is left out of its groups, and an exchange that fails has not been.
class Gossip final : public Method {
 public:
  Gossip(Rounds& rounds, plan::Topology topology, GossipOptions options);

  void start(Copy copy) override;
  Task<> before_update(std::uint64_t step, Copy copy) override;
  bool works_on_blocks() const override { return true; }
  void before_block(std::size_t begin, std::size_t end, Copy copy) override;
  void after_block(std::size_t begin, std::size_t end, Copy copy) override;
  Task<> after_step(std::uint64_t step, Copy copy) override;
  Task<> settle(Copy copy) override;
  void begin_again(std::uint64_t steps_done, Copy copy, bool equal) override;
  std::uint64_t rounds_failed() const override { return failed_; }

 private:
  Task<> end_exchange();

  Rounds& rounds_;
  plan::Topology topology_;
  GossipOptions options_;
  std::vector<float> mixed_;  // what is exchanged, and then its result
  plan::Mix mix_;             // of this step
  bool has_result_ = false;   // that the parameters do not have yet
  std::unique_ptr<Round> exchange_;
  bool is_of_use_ = true;  // the copy is still the one that the exchange began with
  std::uint64_t failed_ = 0;
};

}  // namespace rookery::sync
