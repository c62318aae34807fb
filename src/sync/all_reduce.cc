#include "sync/all_reduce.h"

#include <algorithm>

#include "base/error.h"

namespace rookery::sync {

AllReduce::AllReduce(Rounds& rounds, float share, std::size_t bucket, bool lossy)
    : rounds_(rounds), share_(share), bucket_(bucket), lossy_(lossy) {
  ROOKERY_CHECK(bucket > 0);
}

void AllReduce::start(Copy copy) {
  if (lossy_) lost_.assign(copy.gradients.size(), 0.0f);
}

void AllReduce::gradients_ready(std::uint64_t step, std::size_t from, Copy copy) {
  const std::size_t count = buckets(copy.gradients.size(), bucket_);
  while (under_way_.size() < count) {
    const std::size_t next = count - 1 - under_way_.size(), begin = next * bucket_;
    if (begin < from) break;
    const std::size_t size = std::min(bucket_, copy.gradients.size() - begin);
    const std::span<float> lost = lossy_ ? std::span(lost_).subspan(begin, size) : std::span<float>();
    under_way_.push_back(rounds_.average({next, step, step + 1}, copy.gradients.subspan(begin, size), share_, lost));
  }
}

Task<> AllReduce::before_update(std::uint64_t step, Copy copy) {
  gradients_ready(step, 0, copy);
  for (const auto& round : under_way_) {
    auto finished = round->finish();
    co_await std::move(finished);
  }
  under_way_.clear();
  count_round();
}

}  // namespace rookery::sync
