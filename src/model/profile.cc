#include "model/profile.h"

#include <algorithm>
#include <ctime>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "base/random.h"
#include "tensor/allocator.h"

namespace rookery::model {
namespace {

std::chrono::nanoseconds median(std::vector<std::chrono::nanoseconds> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

// The median distance from the median, as the standard deviation that it would be of a normal distribution.
std::chrono::nanoseconds deviation(const std::vector<std::chrono::nanoseconds>& values) {
  const std::chrono::nanoseconds middle = median(values);
  std::vector<std::chrono::nanoseconds> distances;
  for (const auto value : values) distances.push_back(std::chrono::abs(value - middle));
  return std::chrono::duration_cast<std::chrono::nanoseconds>(1.4826 * median(distances));
}

// Fresh leaves, so that a layer is measured alone.
Tensors detached(const Tensors& tensors) {
  Tensors result;
  for (const at::Tensor& tensor : tensors) {
    result.push_back(tensor.detach());
    if (tensor.is_floating_point()) result.back().set_requires_grad(true);
  }
  return result;
}

// Σ of all outputs that carry gradients: something to start backward from.
at::Tensor scalar_of(const Tensors& outputs) {
  at::Tensor total;
  for (const at::Tensor& output : outputs) {
    if (!output.requires_grad()) continue;
    total = total.defined() ? total + output.sum() : output.sum();
  }
  return total;
}

Bytes bytes_of(const Tensors& tensors, bool with_gradients_only) {
  Bytes total = 0;
  for (const at::Tensor& tensor : tensors) {
    if (tensor.is_floating_point() || !with_gradients_only) total += static_cast<Bytes>(tensor.nbytes());
  }
  return total;
}

void count_parameters(const Layer& layer, std::vector<Parameter>& seen, LayerCost& cost) {
  for (const Parameter& parameter : layer.parameters()) {
    const bool is_tied = std::find(seen.begin(), seen.end(), parameter) != seen.end();
    (is_tied ? cost.tied : cost.parameters) += parameter.spec().elements();
    if (!is_tied) seen.push_back(parameter);
  }
}

at::Tensor random_ids(Random& random, std::int64_t rows, std::int64_t columns, std::int64_t below) {
  at::Tensor ids = at::empty({rows, columns}, at::kLong);
  auto* data = ids.data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < ids.numel(); ++i) {
    data[i] = static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(below)));
  }
  return ids;
}

}  // namespace

std::chrono::nanoseconds computing_time() {
  timespec time{};
  ::clock_gettime(at::get_num_threads() == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

Others::Others(Bytes bytes) {
  constexpr Bytes kMost = 48 << 20;  // more than all caches of most computers
  memory_.resize(static_cast<std::size_t>(std::clamp<Bytes>(bytes, 0, kMost)) / sizeof(std::uint64_t));
}

void Others::pass() {
  constexpr std::size_t kLine = 64 / sizeof(std::uint64_t);
  for (std::size_t i = 0; i < memory_.size(); i += kLine) ++memory_[i];
}

std::vector<LayerCost> profile(const Model& model, const Batch& batch, int repetitions, std::size_t layers) {
  constexpr Bytes kBytesOfAParameter = 8;  // its weight and its gradient
  Others others(repetitions > 0 ? model.parameter_count() * kBytesOfAParameter : 0);
  std::vector<LayerCost> costs;
  std::vector<Parameter> seen;
  Tensors inputs = batch.inputs;
  const Pass pass{.training = true, .key = 0};
  for (std::size_t i = 0; i < std::min(layers, model.size()); ++i) {
    Layer& layer = model.layer(i);
    LayerCost cost{.name = layer.name()};
    count_parameters(layer, seen, cost);
    ParameterStore store(model.parameters(i, i + 1), model.buffers(i, i + 1));
    store.initialize(1);
    std::vector<std::chrono::nanoseconds> forward, backward, both;
    Tensors outputs;
    for (int r = 0; r < repetitions + 1; ++r) {  // the first one warms up
      others.pass();
      Tensors leaves;  // fresh from the layer before
      for (const at::Tensor& input : inputs) leaves.push_back(input.clone());
      leaves = detached(leaves);
      const bool last = i + 1 == model.size();
      outputs.clear();
      const Bytes used_before = allocator_statistics().used;
      const auto start = computing_time();
      outputs = last ? Tensors{model.head().loss(leaves, batch.targets, pass).sum} : layer.forward(leaves, pass);
      const auto middle = computing_time();
      cost.activation_bytes = allocator_statistics().used - used_before;
      if (repetitions == 0) {
        cost.forward = middle - start;
        cost.backward = 2 * cost.forward;
        break;
      }
      const at::Tensor scalar = scalar_of(outputs);
      const auto begin = computing_time();
      scalar.backward();
      if (r == 0) continue;
      forward.push_back(middle - start);
      backward.push_back(computing_time() - begin);
      both.push_back(forward.back() + backward.back());
    }
    if (repetitions > 0) {
      cost.forward = median(forward);
      cost.backward = median(backward);
      cost.deviation = deviation(both);
    }
    const std::int64_t samples = std::max<std::int64_t>(1, batch.samples);
    cost.output_bytes = bytes_of(outputs, false) / samples;
    cost.gradient_bytes = bytes_of(outputs, true) / samples;
    cost.activation_bytes /= samples;
    costs.push_back(cost);
    inputs = detached(outputs);
  }
  return costs;
}

Batch random_batch(Problem problem, const ModelOptions& o, std::int64_t samples, std::uint64_t seed) {
  Random random({seed, word_of("random_batch")});
  Batch batch;
  batch.samples = samples;
  if (problem == Problem::kClassification) {
    at::Tensor images = at::empty({samples, o.channels, o.image_size, o.image_size}, at::kFloat);
    for (float& pixel : floats(images)) pixel = static_cast<float>(2 * random.uniform() - 1);
    batch.inputs = {images};
    batch.targets = random_ids(random, samples, 1, o.classes).view({samples});
  } else {
    batch.inputs = {random_ids(random, samples, o.context, o.vocabulary)};
    if (problem == Problem::kTranslation) {
      batch.inputs.push_back(random_ids(random, samples, o.context, o.vocabulary));
      batch.inputs.push_back(at::full({samples}, o.context, at::kLong));
    }
    batch.targets = random_ids(random, samples, o.context, o.vocabulary);
  }
  batch.tokens = batch.loss_terms = batch.targets.numel();
  return batch;
}

}  // namespace rookery::model
