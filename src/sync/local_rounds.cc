#include "sync/local_rounds.h"

#include <algorithm>

#include "base/error.h"

namespace rookery::sync {

LocalRounds::LocalRounds(Rounds& rounds, float share, LocalOptions options)
    : rounds_(rounds), share_(share), options_(std::move(options)) {
  ROOKERY_CHECK(options_.interval > 0 && options_.delay < options_.interval, "H = {}, delay = {}", options_.interval,
                options_.delay);
  ROOKERY_CHECK(options_.fragments.size() <= options_.interval, "{} fragments", options_.fragments.size());
}

void LocalRounds::start(Copy copy) {
  parts_.clear();
  std::vector<Fragment> fragments = options_.fragments;
  if (fragments.empty()) fragments.push_back({{0, copy.parameters.size()}});
  for (Fragment& fragment : fragments) {
    std::size_t size = 0;
    for (const Range& range : fragment) size += range.size();
    Part& part = parts_.emplace_back();
    part.ranges = std::move(fragment);
    part.values.resize(size * (1 + copy.moments.size()));
    if (options_.lossy) part.lost.resize(size);
  }
}

Task<> LocalRounds::after_step(std::uint64_t step, Copy copy) {
  if (step < first_step_) co_return;
  const std::uint64_t done = step + 1 - first_step_, interval = options_.interval;
  for (std::size_t slot = 0; slot < parts_.size(); ++slot) {
    const std::uint64_t offset = (slot + 1) * interval / parts_.size();
    if (done >= offset && (done - offset) % interval == 0) begin(slot, done, copy);
  }
  for (Part& part : parts_) {
    if (part.round && done == part.begun + options_.delay) co_await end(part, copy);
  }
}

Task<> LocalRounds::settle(Copy copy) {
  for (Part& part : parts_) {
    if (part.round) co_await end(part, copy);
  }
}

void LocalRounds::begin(std::size_t slot, std::uint64_t done, Copy copy) {
  Part& part = parts_[slot];
  std::span<float> rest = part.values;
  for (const Range& range : part.ranges) {
    contribute(range, copy.parameters.subspan(range.begin, range.size()), rest.first(range.size()));
    rest = rest.subspan(range.size());
  }
  for (const std::span<float> moments : copy.moments) {
    for (const Range& range : part.ranges) {
      std::ranges::copy(moments.subspan(range.begin, range.size()), rest.begin());
      rest = rest.subspan(range.size());
    }
  }
  part.begun = done;
  part.round = rounds_.average(slot, part.values, share_, part.lost);
}

Task<> LocalRounds::end(Part& part, Copy copy) {
  const auto round = std::move(part.round);
  auto finished = round->finish();
  co_await std::move(finished);
  std::span<const float> rest = part.values;
  for (const Range& range : part.ranges) {
    apply(range, rest.first(range.size()), copy.parameters.subspan(range.begin, range.size()));
    rest = rest.subspan(range.size());
  }
  for (const std::span<float> moments : copy.moments) {
    for (const Range& range : part.ranges) {
      const std::span<float> own = moments.subspan(range.begin, range.size());
      for (std::size_t i = 0; i < own.size(); ++i) own[i] = merged(own[i], rest[i]);
      rest = rest.subspan(range.size());
    }
  }
  count_round();
}

float LocalRounds::merged(float local, float agreed) const {
  const auto alpha = static_cast<float>(options_.merge);
  return alpha == 0 ? agreed : alpha * local + (1 - alpha) * agreed;
}

}  // namespace rookery::sync
