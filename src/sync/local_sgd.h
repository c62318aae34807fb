#pragma once

#include <vector>

#include "sync/local_rounds.h"

namespace rookery::sync {

// Local SGD: H steps alone, then everybody has the mean: x ← sum over k of share_k x_k.
//
// With a lossy codec what travels is how far everybody went from the model that was agreed last, z: differences are
// small where values are not, and what is lost is made good in the next round.
class LocalSgd final : public LocalRounds {
 public:
  using LocalRounds::LocalRounds;

  void start(Copy copy) override;
  std::vector<NamedState> state() override;

 private:
  void contribute(Range range, std::span<const float> parameters, std::span<float> out) override;
  void apply(Range range, std::span<const float> mean, std::span<float> parameters) override;

  bool keeps_anchor() const { return lossy() && sends_differences(); }

  std::vector<float> anchor_;  // z
};

}  // namespace rookery::sync
