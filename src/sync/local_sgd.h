#pragma once

#include "sync/local_rounds.h"

namespace rookery::sync {

// Local SGD: H steps alone, then everybody has the mean: x ← sum over k of share_k x_k.
class LocalSgd final : public LocalRounds {
 public:
  using LocalRounds::LocalRounds;

 private:
  void contribute(Range range, std::span<const float> parameters, std::span<float> out) override;
  void apply(Range range, std::span<const float> mean, std::span<float> parameters) override;
};

}  // namespace rookery::sync
