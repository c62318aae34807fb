#include "data/sampler.h"

#include "base/random.h"

namespace rookery::data {

Sampler::Sampler(std::uint64_t seed, std::uint64_t samples_per_epoch)
    : seed_(seed), samples_per_epoch_(samples_per_epoch) {}

Sampler::Place Sampler::at(std::uint64_t position) const {
  if (samples_per_epoch_ == 0) return {0, position};
  const std::uint64_t epoch = position / samples_per_epoch_;
  const Random order({seed_, word_of("order"), epoch});
  return {epoch, permuted(order, position % samples_per_epoch_, samples_per_epoch_)};
}

}  // namespace rookery::data
