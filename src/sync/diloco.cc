#include "sync/diloco.h"

#include <algorithm>
#include <cmath>

#include "base/heap.h"

namespace rookery::sync {

Diloco::Diloco(Rounds& rounds, float share, LocalOptions local, OuterOptions outer)
    : LocalRounds(rounds, share, std::move(local)), outer_(outer), warm_up_(rounds, share, outer.bucket, lossy()) {
  begin_after(outer.warmup);
}

void Diloco::start(Copy copy) {
  LocalRounds::start(copy);
  warm_up_.start(copy);
  std::vector<float> values;
  reserve_large(values, 2 * copy.parameters.size());
  values.assign(copy.parameters.begin(), copy.parameters.end());
  values.resize(2 * copy.parameters.size());
  agreed_ = std::make_shared<Lendable>(std::move(values));
}

Diloco::Agreed Diloco::agreed() const {
  const std::span<float> values = agreed_->values();
  return {values.first(values.size() / 2), values.last(values.size() / 2)};
}

void Diloco::gradients_ready(std::uint64_t step, std::size_t from, Copy copy) {
  if (warms_up(step)) warm_up_.gradients_ready(step, from, copy);
}

Task<> Diloco::before_update(std::uint64_t step, Copy copy) {
  if (!warms_up(step)) co_return;
  auto averaged = warm_up_.before_update(step, copy);
  co_await std::move(averaged);
}

Task<> Diloco::after_step(std::uint64_t step, Copy copy) {
  has_anchor_ = !warms_up(step + 1);
  if (warms_up(step)) {
    if (has_anchor_) std::ranges::copy(copy.parameters, agreed().anchor.begin());
  } else {
    auto rounds = LocalRounds::after_step(step, copy);
    co_await std::move(rounds);
  }
  if (has_anchor_) agreed_->offer();
}

void Diloco::contribute(Range range, std::span<const float> parameters, std::span<float> out) {
  if (!sends_differences()) {
    std::ranges::copy(parameters, out.begin());
    return;
  }
  const float* z = anchor().data() + range.begin;
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = z[i] - parameters[i];
}

void Diloco::apply(Range range, std::span<const float> mean, std::span<float> parameters) {
  const auto lr = static_cast<float>(outer_.lr), mu = static_cast<float>(outer_.momentum);
  agreed_->recall();
  float* z = agreed().anchor.data() + range.begin;
  float* v = agreed().momentum.data() + range.begin;
  for (std::size_t i = 0; i < mean.size(); ++i) {
    const float delta = sends_differences() ? mean[i] : z[i] - mean[i];
    v[i] = mu * v[i] + delta;
    z[i] -= lr * (delta + mu * v[i]);
    parameters[i] = merged(parameters[i], z[i]);
  }
}

std::optional<double> Diloco::drift(Copy copy) const {
  if (!has_anchor_) return std::nullopt;
  double squares = 0;
  const std::span<const float> z = anchor();
  for (std::size_t i = 0; i < z.size(); ++i) {
    const double difference = static_cast<double>(copy.parameters[i]) - static_cast<double>(z[i]);
    squares += difference * difference;
  }
  return std::sqrt(squares);
}

std::vector<std::span<float>> Diloco::handed_on(Copy copy, bool equal) {
  return {equal ? copy.parameters : agreed().anchor, agreed().momentum};
}

void Diloco::begin_again(std::uint64_t steps_done, Copy copy, bool equal) {
  LocalRounds::begin_again(steps_done, copy, equal);
  has_anchor_ = !warms_up(steps_done);
  if (equal) {
    std::ranges::copy(copy.parameters, agreed().anchor.begin());
  } else {
    std::ranges::copy(anchor(), copy.parameters.begin());
  }
  if (has_anchor_) agreed_->offer();
}

std::vector<Method::NamedState> Diloco::state() {
  return {{.name = "anchor", .values = agreed().anchor}, {.name = "outer_momentum", .values = agreed().momentum}};
}

}  // namespace rookery::sync
