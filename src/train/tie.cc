#include "train/tie.h"

#include <algorithm>
#include <memory>

#include "base/error.h"
#include "net/error.h"

namespace rookery::train {

using pipeline::Border;
using pipeline::Borders;

Tie::Tie(Tied tied, Borders& way, Compute& compute) : tied_(std::move(tied)), way_(way), compute_(compute) {
  for (const Tied::Range& range : tied_.ranges) values_ += range.end - range.begin;
  ROOKERY_CHECK(values_ > 0);
}

std::size_t Tie::incomplete_until() const {
  std::size_t end = 0;
  for (const Tied::Range& range : tied_.ranges) end = std::max(end, tied_.owns ? range.end : 0);
  return end;
}

Border Tie::gathered(std::span<const float> flat, std::uint64_t number) const {
  const auto values = std::make_shared<std::vector<float>>();
  values->reserve(values_);
  for (const Tied::Range& range : tied_.ranges) {
    const auto piece = flat.subspan(range.begin, range.end - range.begin);
    values->insert(values->end(), piece.begin(), piece.end());
  }
  Border border{.micro_batch = number};
  border.tensors.push_back({.type = pipeline::TensorType::kFloat,
                            .shape = {values_},
                            .bytes = std::as_bytes(std::span(*values)),
                            .keeper = values});
  return border;
}

Task<Border> Tie::next(std::optional<Border> (Borders::*take)()) {
  for (;;) {
    std::optional<Border> border = (way_.*take)();
    if (border) co_return std::move(*border);
    auto waiting = way_.changed().wait();
    co_await std::move(waiting);
  }
}

// What has come, if it is what both ends have.
std::span<const float> Tie::content_of(const Border& border) const {
  const bool is_one = border.tensors.size() == 1 && border.tensors[0].type == pipeline::TensorType::kFloat;
  if (!is_one || border.tensors[0].bytes.size() != values_ * sizeof(float)) {
    throw net::LinkError(net::Failure::kProtocol, "", "sent something else than the tied parameters");
  }
  return {reinterpret_cast<const float*>(border.tensors[0].bytes.data()), values_};
}

Task<> Tie::gather_gradients() {
  if (!tied_.owns) {
    const std::span<float> own = compute_.replica_gradients();
    way_.send_backward(gathered(own, gathered_++));
    for (const Tied::Range& range : tied_.ranges) {
      std::ranges::fill(own.subspan(range.begin, range.end - range.begin), 0.0f);
    }
    co_return;
  }
  auto coming = next(&Borders::take_backward);
  const Border border = co_await std::move(coming);
  std::span<const float> theirs = content_of(border);
  for (const Tied::Range& range : tied_.ranges) {
    const std::span<float> own = compute_.gradients().subspan(range.begin, range.end - range.begin);
    std::ranges::transform(own, theirs.first(own.size()), own.begin(), std::plus<>());
    theirs = theirs.subspan(own.size());
  }
}

Task<> Tie::spread_values(bool waits) {
  const std::uint64_t number = spread_++;
  if (tied_.owns) {
    way_.send_forward(gathered(compute_.parameters(), number));
    co_return;
  }
  std::optional<Border> newest;
  while (values_taken_ < spread_) {
    std::optional<Border> border = way_.take_forward();
    if (!border && !waits) break;
    if (!border) {
      auto coming = next(&Borders::take_forward);
      border = co_await std::move(coming);
    }
    values_taken_ = border->micro_batch + 1;  // those before it may be gone
    newest = std::move(border);
  }
  if (newest) take_values(*newest);
}

void Tie::take_values(const Border& border) {
  std::span<const float> theirs = content_of(border);
  const std::span<float> own = compute_.replicas_to_write();
  for (const Tied::Range& range : tied_.ranges) {
    std::ranges::copy(theirs.first(range.end - range.begin), own.begin() + static_cast<std::ptrdiff_t>(range.begin));
    theirs = theirs.subspan(range.end - range.begin);
  }
}

}  // namespace rookery::train
