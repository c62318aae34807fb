#include "train/passing.h"

#include <algorithm>

namespace rookery::train {

using pipeline::Border;

Passing::Passing(Clock& clock, Compute& compute, plan::StagePlace stage, pipeline::Borders& borders)
    : compute_(compute),
      stage_(stage),
      runner_(clock, {.schedule = plan::Schedule::kAsync, .micro_batches = 1}, stage, borders, *this) {}

Task<std::optional<LossReport>> Passing::pass(data::Split split, std::uint64_t begin, std::uint64_t end,
                                              const std::atomic<bool>* stop) {
  split_ = split;
  begin_ = begin;
  end_ = std::max(begin, std::min(end, compute_.samples_in(split)));
  first_ = runner_.micro_batches();
  stop_ = stop;
  stopped_ = false;
  sums_ = {};
  const config::Train& t = compute_.settings().train;
  samples_ = static_cast<std::uint64_t>(t.batch / t.micro_batches);
  auto running = runner_.run(first_ + (end_ - begin_ + samples_ - 1) / samples_);
  co_await std::move(running);
  if (stopped_) co_return std::nullopt;
  const double all = std::max(1.0, sums_.terms);
  co_return LossReport{sums_.loss / all, sums_.correct / all, static_cast<std::int64_t>(sums_.terms)};
}

// Whoever is told to stop passes on nothing, and so does whoever gets nothing.
Task<Border> Passing::forward(Border input) {
  stopped_ = stopped_ || (stop_ != nullptr && *stop_) || (!stage_.is_first() && input.tensors.empty());
  if (stopped_) co_return Border{};
  const std::uint64_t from = begin_ + (input.micro_batch - first_) * samples_;
  auto evaluating = compute_.evaluate(split_, from, std::min(from + samples_, end_), std::move(input), sums_);
  co_return co_await std::move(evaluating);
}

Task<Border> Passing::backward(Border /*gradients*/) { co_return Border{}; }

Task<> Passing::update(std::uint64_t /*number*/) { co_return; }

}  // namespace rookery::train
