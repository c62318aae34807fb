#include "train/trial.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "model/profile.h"
#include "tensor/allocator.h"
#include "train/setup.h"
#include "train/stage.h"

namespace rookery::train {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr double kStepSeconds = 0.1;  // that a step may take, by what each layer takes alone,
constexpr double kPassSeconds = 0.5;  // and a micro-batch, if it is the only one of a step
constexpr std::chrono::milliseconds kWhile(500);

double seconds(std::chrono::nanoseconds duration) { return std::chrono::duration<double>(duration).count(); }

double time_of(const plan::ModelProfile& layers, std::size_t count) {
  return std::accumulate(layers.begin(), layers.begin() + static_cast<std::ptrdiff_t>(count), 0.0,
                         [](double sum, const plan::LayerProfile& l) { return sum + l.forward + l.backward; });
}

// What is tried.
struct Extent {
  std::size_t layers = 0;   // the first ones
  std::int64_t passes = 1;  // micro-batches of a step
};

Extent extent_of(const Blueprint& blueprint, const Profile& profile, Bytes memory) {
  constexpr Bytes kBytesOfAParameter = 16;  // weight, gradient and moments
  constexpr std::size_t kFewest = 2;        // the first one may only look something up
  Extent extent;
  for (Bytes taken = 0; extent.layers < profile.layers.size(); ++extent.layers) {
    for (const Parameter& parameter : blueprint.model->layer(extent.layers).parameters()) {
      taken += parameter.spec().elements() * kBytesOfAParameter;
    }
    taken += profile.layers[extent.layers].activations;
    const double takes = time_of(profile.layers, extent.layers + 1);
    if (taken > memory || takes > (extent.layers < kFewest ? kPassSeconds : kStepSeconds)) break;
  }
  if (extent.layers == 0) return extent;
  const double most = kStepSeconds / std::max(1e-9, time_of(profile.layers, extent.layers));
  extent.passes = std::clamp<std::int64_t>(std::llround(most), 1, blueprint.settings.train.micro_batches);
  return extent;
}

class Trial {
 public:
  Trial(const Blueprint& blueprint, Extent extent)
      : blueprint_(blueprint),
        extent_(extent),
        stage_(*blueprint.model, {0, extent.layers}, plan::Versions::kLatest,
               optimizer_options(blueprint.settings.train), device_of(blueprint.settings.train)) {
    stage_.initialize(1);
    stage_.store().zero_gradients();
  }

  // The mean, in processor seconds. The first one touches the memory, and does not count.
  double seconds_of_a_step() {
    take_step();
    const auto start = SteadyClock::now();
    double sum = 0;
    int steps = 0;
    do {
      sum += take_step();
      ++steps;
    } while (SteadyClock::now() - start < kWhile);
    return sum / steps;
  }

 private:
  // Does not change the parameters, whatever the gradients are.
  double take_step() {
    const auto start = model::computing_time();
    for (std::int64_t i = 0; i < extent_.passes; ++i) pass();
    stage_.update(0, clip_scale(gradient_norm(stage_.store()), blueprint_.settings.train.clip));
    stage_.store().zero_gradients();
    return seconds(model::computing_time() - start);
  }

  void pass() {
    constexpr std::uint64_t kDifferent = 16;
    const std::uint64_t number = number_++;
    const Batch batch = typical_batch(blueprint_, number % kDifferent);
    const model::Pass pass{.training = true, .key = number};
    Tensors gradients;
    if (stage_.is_last()) {
      const auto terms = static_cast<double>(std::max<std::int64_t>(1, batch.loss_terms));
      stage_.loss(number, batch.inputs, batch.targets, pass, terms);
    } else {
      for (const at::Tensor& output : stage_.forward(number, batch.inputs, pass)) {
        gradients.push_back(output.is_floating_point() ? at::ones_like(output) : at::Tensor());
      }
    }
    stage_.backward(number, gradients);
  }

  const Blueprint& blueprint_;
  Extent extent_;
  Stage stage_;
  std::uint64_t number_ = 0;
};

}  // namespace

std::optional<double> try_out(const Blueprint& blueprint, const Profile& profile, Bytes memory) {
  if (at::get_num_threads() > 1) return std::nullopt;
  const Extent extent = extent_of(blueprint, profile, memory);
  if (extent.layers == 0) return std::nullopt;
  double parameters = 0;
  for (const Parameter& parameter : blueprint.model->parameters(0, extent.layers)) {
    parameters += static_cast<double>(parameter.spec().elements());
  }
  const double alone =
      time_of(profile.layers, extent.layers) * static_cast<double>(extent.passes) + profile.update * parameters;
  const double together = Trial(blueprint, extent).seconds_of_a_step();
  trim_tensor_memory();
  return alone > 0 ? std::optional(together / alone) : std::nullopt;
}

}  // namespace rookery::train
