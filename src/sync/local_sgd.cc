#include "sync/local_sgd.h"

#include <algorithm>

namespace rookery::sync {

void LocalSgd::contribute(Range /*range*/, std::span<const float> parameters, std::span<float> out) {
  std::ranges::copy(parameters, out.begin());
}

void LocalSgd::apply(Range /*range*/, std::span<const float> mean, std::span<float> parameters) {
  for (std::size_t i = 0; i < mean.size(); ++i) parameters[i] = merged(parameters[i], mean[i]);
}

}  // namespace rookery::sync
