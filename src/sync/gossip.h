#pragma once

#include <vector>

#include "sync/method.h"
#include "sync/topology.h"

namespace rookery::sync {

enum class GossipMode {
  kCombineWhileComputing,  // the mix travels while the next gradient is computed
  kAdaptThenCombine,       // the step waits for it
};

struct GossipOptions {
  GossipMode mode = GossipMode::kCombineWhileComputing;
  double consensus = 1;  // γ: mixes with γW + (1-γ)I
};

// Decentralized data parallelism: everybody mixes its parameters with a few others.
//
//   combine while computing:   x_i ← Σ_j W_ij x_j − η d(g_i), with g_i taken at the unmixed x_i
//   adapt then combine:        x_i ← Σ_j W_ij (x_j − η d(g_j))
//
// In the first, an exchange starts when a step ends and is needed when the next one has its gradients: it has a whole
// step to finish, which hides it, and absorbs jitter. Moments of the optimizer are never mixed.
class Gossip final : public Method {
 public:
  Gossip(Rounds& rounds, Topology topology, GossipOptions options);

  Task<> before_update(std::uint64_t step, Copy copy) override;
  Task<> after_step(std::uint64_t step, Copy copy) override;
  Task<> settle(Copy copy) override;

 private:
  void begin_exchange(std::uint64_t step, Copy copy);
  Task<> end_exchange(Copy copy);

  Rounds& rounds_;
  Topology topology_;
  GossipOptions options_;
  std::vector<float> mixed_;
  std::unique_ptr<Round> exchange_;
};

}  // namespace rookery::sync
