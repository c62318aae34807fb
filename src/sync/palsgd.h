#pragma once

#include "sync/diloco.h"

namespace rookery::sync {

enum class PullMode {
  kRandom,     // with probability p a pull instead of a gradient step
  kEveryStep,  // control arm: λ(x − z) is added to every gradient
};

struct PullOptions {
  PullMode mode = PullMode::kRandom;
  double probability = 0.1;  // p
  double strength = 0.5;     // λ; 0 with kRandom is the other control arm: steps are skipped, and nothing pulls
  double lr = 0.01;          // η_ref: the peak learning rate for SGD, a setting of its own for the Adam family
  std::uint64_t seed = 1;
};

// PALSGD: DiLoCo whose peers are pulled towards the anchor z on their way. Each step after the warm-up is, with
// probability p,
//
//   x ← x − κ (x − z),   κ = min(1, (λ/p) · η_ref · η_t / η_peak)
//
// and otherwise a gradient step with learning rate η/(1−p). In expectation (SGD) that is SGD on f_k(x) + λ/2 ‖x − z‖².
// Every value is pulled; each cluster draws for itself, and all stages of a cluster draw alike.
//
// A pull uses no data: the samples of a step that was skipped are those of the next one.
class Palsgd final : public Diloco {
 public:
  // `cluster`: the number of the cluster that holds this copy.
  Palsgd(Rounds& rounds, float share, std::size_t cluster, LocalOptions local, OuterOptions outer, PullOptions pull);

  Move move(std::uint64_t step) const override;
  bool pulls() const override { return pull_.mode == PullMode::kRandom && pull_.probability > 0; }
  double lr_factor(std::uint64_t step) const override;
  Task<> before_update(std::uint64_t step, Copy copy) override;
  void pull(std::uint64_t step, double lr_share, Copy copy) override;

 private:
  std::size_t cluster_;
  PullOptions pull_;
};

}  // namespace rookery::sync
