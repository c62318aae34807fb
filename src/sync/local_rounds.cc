#include "sync/local_rounds.h"

#include <algorithm>

#include "base/error.h"
#include "net/error.h"

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
    if (!options_.holds_up) part.before.resize(part.values.size());
  }
}

Task<> LocalRounds::after_step(std::uint64_t step, Copy copy) {
  if (step < first_step_) co_return;
  done_ = step + 1 - first_step_;
  const std::uint64_t interval = options_.interval;
  for (std::size_t slot = 0; slot < parts_.size(); ++slot) {
    if (done_ < offset(slot) || (done_ - offset(slot)) % interval != 0) continue;
    if (parts_[slot].round) co_await end(parts_[slot], copy);
    begin({slot, first_step_ + (done_ - offset(slot)) / interval, step + 1}, copy);
  }
  for (Part& part : parts_) {
    if (!part.round) continue;
    if (options_.holds_up ? done_ == part.begun + options_.delay : part.round->has_ended()) co_await end(part, copy);
  }
}

Task<> LocalRounds::settle(Copy copy) {
  for (Part& part : parts_) {
    if (part.round) co_await end(part, copy);
  }
}

void LocalRounds::begin_again(std::uint64_t steps_done, Copy /*copy*/, bool /*equal*/) {
  done_ = steps_done - std::min(steps_done, first_step_);
  for (std::size_t slot = 0; slot < parts_.size(); ++slot) {
    parts_[slot].is_of_use = false;
    std::ranges::fill(parts_[slot].lost, 0.0f);
  }
}

// Visits the values of a part, and then those of its moments, as pieces of one after another: `use(range, values of the
// copy, place in the part's vectors)`.
template <typename Use>
void LocalRounds::visit(const Part& part, Copy copy, Use use) {
  std::size_t place = 0;
  for (std::size_t vector = 0; vector <= copy.moments.size(); ++vector) {
    const std::span<float> all = vector == 0 ? copy.parameters : copy.moments[vector - 1];
    for (const Range& range : part.ranges) {
      use(range, all.subspan(range.begin, range.size()), place, vector > 0);
      place += range.size();
    }
  }
}

void LocalRounds::begin(Which which, Copy copy) {
  Part& part = parts_[which.slot];
  visit(part, copy, [&](Range range, std::span<float> own, std::size_t place, bool is_moment) {
    const std::span<float> out = std::span(part.values).subspan(place, own.size());
    if (is_moment) {
      std::ranges::copy(own, out.begin());
    } else {
      contribute(range, own, out);
    }
    if (!part.before.empty()) std::ranges::copy(own, part.before.begin() + static_cast<std::ptrdiff_t>(place));
  });
  part.begun = done_;
  part.is_of_use = true;
  part.round = rounds_.average(which, part.values, share_, part.lost);
}

Task<> LocalRounds::end(Part& part, Copy copy) {
  const auto round = std::move(part.round);
  bool has_failed = false;
  try {
    auto finished = round->finish();
    co_await std::move(finished);
  } catch (const net::LinkError&) {
    if (!options_.changing) throw;
    has_failed = true;
  }
  if (has_failed) {
    std::ranges::fill(part.lost, 0.0f);
    ++failed_;
    co_return;
  }
  if (!part.is_of_use) co_return;
  if (part.before.empty() || part.begun == done_) {
    replace(part, copy);
  } else {
    fold_in(part, copy);
  }
  count_round();
}

void LocalRounds::agree(Range range, std::span<const float> mean, std::span<float> own, bool is_moment) {
  if (!is_moment) return apply(range, mean, own);
  for (std::size_t i = 0; i < own.size(); ++i) own[i] = merged(own[i], mean[i]);
}

void LocalRounds::replace(Part& part, Copy copy) {
  visit(part, copy, [&](Range range, std::span<float> own, std::size_t place, bool is_moment) {
    agree(range, std::span(part.values).subspan(place, own.size()), own, is_moment);
  });
}

void LocalRounds::fold_in(Part& part, Copy copy) {
  visit(part, copy, [&](Range range, std::span<float> own, std::size_t place, bool is_moment) {
    const std::span<float> agreed = std::span(part.before).subspan(place, own.size());
    for (std::size_t i = 0; i < own.size(); ++i) own[i] -= agreed[i];
    agree(range, std::span(part.values).subspan(place, own.size()), agreed, is_moment);
    for (std::size_t i = 0; i < own.size(); ++i) own[i] += agreed[i];
  });
}

float LocalRounds::merged(float local, float agreed) const {
  const auto alpha = static_cast<float>(options_.merge);
  return alpha == 0 ? agreed : alpha * local + (1 - alpha) * agreed;
}

}  // namespace rookery::sync
