#include "simulate/timed_compute.h"

#include <numeric>

#include "base/error.h"
#include "train/pace.h"

namespace rookery::simulate {

using pipeline::Border;

TimedCompute::TimedCompute(Clock& clock, train::Compute& arithmetic, plan::Layers layers, Tempo tempo, std::string name)
    : clock_(clock), arithmetic_(arithmetic), own_(layers), tempo_(std::move(tempo)), name_(std::move(name)) {
  ROOKERY_CHECK(tempo_.backward.size() == layers.size());
}

double TimedCompute::factor(std::uint64_t step) const {
  return train::jitter_factor(tempo_.jitter, static_cast<std::uint64_t>(settings().train.seed), name_, step);
}

Task<> TimedCompute::pass(double seconds) const {
  return clock_.sleep_for(std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds)));
}

Task<Border> TimedCompute::forward(train::MicroBatch micro_batch, Border input, train::LossSums& sums) {
  const double takes = factor(micro_batch.step);
  on_their_way_[micro_batch.number] = {takes, std::move(micro_batch.reached)};
  micro_batch.reached = {};
  auto computing = arithmetic_.forward(std::move(micro_batch), std::move(input), sums);
  Border output = co_await std::move(computing);
  auto passing = pass(takes * tempo_.forward);
  co_await std::move(passing);
  co_return output;
}

Task<Border> TimedCompute::backward(std::uint64_t number, Border gradients) {
  const OnItsWay own = std::move(on_their_way_.at(number));
  on_their_way_.erase(number);
  auto computing = arithmetic_.backward(number, std::move(gradients));
  Border back = co_await std::move(computing);
  if (!own.reached) {
    auto passing = pass(own.factor * std::accumulate(tempo_.backward.begin(), tempo_.backward.end(), 0.0));
    co_await std::move(passing);
    co_return back;
  }
  for (std::size_t layer = own_.end; layer-- > own_.begin;) {
    auto passing = pass(own.factor * tempo_.backward[layer - own_.begin]);
    co_await std::move(passing);
    if (layer > 0) own.reached(layer);  // those of the first layer end the backward
  }
  co_return back;
}

Task<> TimedCompute::update(double lr, double scale, Around around) {
  auto updating = arithmetic_.update(lr, scale, std::move(around));
  co_await std::move(updating);
  auto passing = pass(tempo_.update);
  co_await std::move(passing);
}

Task<> TimedCompute::change(std::uint64_t step, std::function<void()> how) {
  auto changing = arithmetic_.change(step, std::move(how));
  co_await std::move(changing);
  auto passing = pass(tempo_.change);
  co_await std::move(passing);
}

// Evaluations take no time: they are for whoever watches.
Task<Border> TimedCompute::evaluate(data::Split split, std::uint64_t begin, std::uint64_t end, Border input,
                                    train::LossSums& sums) {
  return arithmetic_.evaluate(split, begin, end, std::move(input), sums);
}

}  // namespace rookery::simulate
