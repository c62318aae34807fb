#include "sync/local_sgd.h"

#include <algorithm>

#include "base/heap.h"

namespace rookery::sync {

void LocalSgd::start(Copy copy) {
  LocalRounds::start(copy);
  if (!keeps_anchor()) return;
  reserve_large(anchor_, copy.parameters.size());
  anchor_.assign(copy.parameters.begin(), copy.parameters.end());
}

std::vector<Method::NamedState> LocalSgd::state() {
  if (!keeps_anchor()) return {};
  return {{.name = "anchor", .values = anchor_}};
}

void LocalSgd::contribute(Range range, std::span<const float> parameters, std::span<float> out) {
  std::ranges::copy(parameters, out.begin());
  for (std::size_t i = 0; keeps_anchor() && i < out.size(); ++i) out[i] -= anchor_[range.begin + i];
}

void LocalSgd::apply(Range range, std::span<const float> mean, std::span<float> parameters) {
  for (std::size_t i = 0; i < mean.size(); ++i) {
    const float agreed = keeps_anchor() ? anchor_[range.begin + i] += mean[i] : mean[i];
    parameters[i] = merged(parameters[i], agreed);
  }
}

}  // namespace rookery::sync
