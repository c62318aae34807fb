#include "train/tie.h"

#include <algorithm>

#include <ATen/ATen.h>

#include "base/error.h"
#include "net/error.h"
#include "train/tensor_border.h"

namespace rookery::train {
namespace {

using pipeline::Border;
using pipeline::Borders;

std::vector<ParameterRange> ranges_of(const ParameterStore& store, const std::vector<std::string>& names) {
  std::vector<ParameterRange> ranges;
  const std::vector<Parameter> entries = store.entries();
  for (const std::string& name : names) {
    const auto found = std::ranges::find(entries, name, [](const Parameter& p) { return p.spec().name; });
    ROOKERY_CHECK(found != entries.end(), "{} is not here", name);
    ranges.push_back(store.ranges()[static_cast<std::size_t>(found - entries.begin())]);
  }
  return ranges;
}

}  // namespace

Tie::Tie(End end, Borders& way, Stage& stage, const std::vector<std::string>& names)
    : end_(end),
      way_(way),
      stage_(stage),
      ranges_(ranges_of(end == End::kOwner ? stage.store() : stage.replicas(), names)) {
  ROOKERY_CHECK(!ranges_.empty());
}

at::Tensor Tie::gathered(const at::Tensor& flat) const {
  Tensors pieces;
  for (const ParameterRange& range : ranges_) pieces.push_back(flat.narrow(0, range.begin, range.end - range.begin));
  return at::cat(pieces);
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
Tensors pieces_of(const Border& border, const std::vector<ParameterRange>& ranges) {
  std::vector<std::int64_t> sizes;
  std::int64_t all = 0;
  for (const ParameterRange& range : ranges) {
    sizes.push_back(range.end - range.begin);
    all += sizes.back();
  }
  const Tensors tensors = to_tensors(border);
  if (tensors.size() != 1 || !tensors[0].defined() || !tensors[0].is_floating_point() || tensors[0].numel() != all) {
    throw net::LinkError(net::Failure::kProtocol, "", "sent something else than the tied parameters");
  }
  return tensors[0].split_with_sizes(sizes);
}

Task<> Tie::gather_gradients() {
  if (end_ == End::kReplica) {
    Border border = to_border({gathered(stage_.replicas().gradients())});
    border.micro_batch = gathered_++;
    way_.send_backward(std::move(border));
    for (const ParameterRange& range : ranges_) {
      stage_.replicas().gradients().narrow(0, range.begin, range.end - range.begin).zero_();
    }
    co_return;
  }
  auto coming = next(&Borders::take_backward);
  const Border border = co_await std::move(coming);
  const Tensors pieces = pieces_of(border, ranges_);
  for (std::size_t i = 0; i < ranges_.size(); ++i) {
    stage_.store().gradients().narrow(0, ranges_[i].begin, ranges_[i].end - ranges_[i].begin).add_(pieces[i]);
  }
}

Task<> Tie::spread_values(bool waits) {
  const std::uint64_t number = spread_++;
  if (end_ == End::kOwner) {
    Border border = to_border({gathered(stage_.store().values())});
    border.micro_batch = number;
    way_.send_forward(std::move(border));
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
    newest = std::move(border);
    ++values_taken_;
  }
  if (newest) take_values(*newest);
}

void Tie::take_values(const Border& border) {
  const Tensors pieces = pieces_of(border, ranges_);
  const at::Tensor& values = stage_.replicas_to_write().values();
  for (std::size_t i = 0; i < ranges_.size(); ++i) {
    values.narrow(0, ranges_[i].begin, ranges_[i].end - ranges_[i].begin).copy_(pieces[i]);
  }
}

}  // namespace rookery::train
