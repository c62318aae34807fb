#include "sync/palsgd.h"

#include <algorithm>

#include "base/error.h"
#include "base/random.h"

namespace rookery::sync {

Palsgd::Palsgd(Rounds& rounds, float share, std::size_t cluster, LocalOptions local, OuterOptions outer,
               PullOptions pull)
    : Diloco(rounds, share, std::move(local), outer), cluster_(cluster), pull_(pull) {
  ROOKERY_CHECK(pull.probability >= 0 && pull.probability < 1, "p = {}", pull.probability);
}

Move Palsgd::move(std::uint64_t step) const {
  if (warms_up(step) || pull_.mode == PullMode::kEveryStep) return Move::kGradient;
  Random random({pull_.seed, word_of("pull"), cluster_, step});
  return random.uniform() < pull_.probability ? Move::kPull : Move::kGradient;
}

double Palsgd::lr_factor(std::uint64_t step) const {
  const bool skips = !warms_up(step) && pull_.mode == PullMode::kRandom;
  return skips ? 1 / (1 - pull_.probability) : 1;
}

Task<> Palsgd::before_update(std::uint64_t step, Copy copy) {
  if (!warms_up(step) && pull_.mode == PullMode::kEveryStep) {
    const auto strength = static_cast<float>(pull_.strength);
    const std::span<const float> z = anchor();
    for (std::size_t i = 0; i < z.size(); ++i) copy.gradients[i] += strength * (copy.parameters[i] - z[i]);
  }
  auto averaged = Diloco::before_update(step, copy);
  co_await std::move(averaged);
}

void Palsgd::pull(std::uint64_t /*step*/, double lr_share, Copy copy) {
  const double kappa = std::min(1.0, pull_.strength / pull_.probability * pull_.lr * lr_share);
  const auto k = static_cast<float>(kappa);
  const std::span<const float> z = anchor();
  for (std::size_t i = 0; i < z.size(); ++i) copy.parameters[i] -= k * (copy.parameters[i] - z[i]);
}

}  // namespace rookery::sync
