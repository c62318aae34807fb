#include "train/stage.h"

#include <algorithm>
#include <set>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "base/error.h"

namespace rookery::train {
namespace {

using plan::Layers;
using plan::Versions;

// Parameters of these layers that no earlier layer has brought; or the others.
std::vector<Parameter> parameters_of(const model::Model& model, Layers layers, bool replicas) {
  const std::vector<Parameter> earlier = model.parameters(0, layers.begin);
  std::vector<Parameter> result;
  for (const Parameter& parameter : model.parameters(layers.begin, layers.end)) {
    const bool is_replica = std::ranges::find(earlier, parameter) != earlier.end();
    if (is_replica == replicas) result.push_back(parameter);
  }
  return result;
}

// One more than there are layers: the last is the end.
std::vector<std::size_t> begins_of(const model::Model& model, Layers layers) {
  std::vector<Parameter> seen = model.parameters(0, layers.begin);
  std::vector<std::size_t> begins = {0};
  for (std::size_t i = layers.begin; i < layers.end; ++i) {
    begins.push_back(begins.back());
    for (const Parameter& parameter : model.layer(i).parameters()) {
      if (std::ranges::find(seen, parameter) != seen.end()) continue;
      seen.push_back(parameter);
      begins.back() += static_cast<std::size_t>(parameter.spec().elements());
    }
  }
  return begins;
}

std::vector<std::size_t> buffer_begins_of(const model::Model& model, Layers layers) {
  std::vector<std::size_t> begins = {0};
  for (std::size_t i = layers.begin; i < layers.end; ++i) {
    begins.push_back(begins.back());
    for (const Parameter& buffer : model.layer(i).buffers()) {
      begins.back() += static_cast<std::size_t>(buffer.spec().elements());
    }
  }
  return begins;
}

}  // namespace

Stage::Stage(const model::Model& model, Layers layers, Versions versions, const OptimizerOptions& optimizer,
             at::Device device)
    : model_(model),
      layers_(layers),
      mode_(versions),
      device_(device),
      store_(parameters_of(model, layers, false), model.buffers(layers.begin, layers.end), device),
      replicas_(parameters_of(model, layers, true), {}, device),
      optimizer_(make_optimizer(optimizer, store_)),
      first_(begins_of(model, {0, layers.begin}).back()),
      begins_(begins_of(model, layers)),
      buffer_begins_(buffer_begins_of(model, layers)) {
  ROOKERY_CHECK(layers.begin < layers.end && layers.end <= model.size(), "[{}, {})", layers.begin, layers.end);
}

void Stage::initialize(std::uint64_t seed) {
  store_.initialize(seed);
  replicas_.initialize(seed);
}

void Stage::begin_empty() {
  store_.begin_empty();
  replicas_.begin_empty();
}

// Backward ends at the inputs. Those of the first stage are data.
Tensors Stage::leaves_of(const Tensors& inputs) const {
  Tensors leaves;
  for (const at::Tensor& input : inputs) {
    leaves.push_back(input.to(device_, /*non_blocking=*/true).detach());
    if (layers_.begin > 0 && input.is_floating_point()) leaves.back().set_requires_grad(true);
  }
  return leaves;
}

Tensors Stage::forward(std::uint64_t number, const Tensors& inputs, const model::Pass& pass) {
  ROOKERY_CHECK(!is_last() && !kept_.contains(number), "micro-batch {}", number);
  Kept kept{.inputs = leaves_of(inputs), .outputs = {}, .pass = pass, .version = version_};
  Tensors outputs;
  {
    const at::AutoGradMode records(mode_ != Versions::kRecompute);
    outputs = model_.forward(kept.inputs, pass, layers_.begin, layers_.end);
  }
  if (mode_ != Versions::kRecompute) kept.outputs = outputs;
  kept_.emplace(number, std::move(kept));
  for (at::Tensor& output : outputs) output = output.detach();
  return outputs;
}

ops::LossSum Stage::loss(std::uint64_t number, const Tensors& inputs, const at::Tensor& targets,
                         const model::Pass& pass, double divisor) {
  ROOKERY_CHECK(is_last() && !kept_.contains(number), "micro-batch {}", number);
  Kept kept{.inputs = leaves_of(inputs), .outputs = {}, .pass = pass, .version = version_};
  const Tensors reached = model_.forward(kept.inputs, pass, layers_.begin, layers_.end - 1);
  ops::LossSum loss = model_.loss(reached, targets.to(device_, /*non_blocking=*/true), pass);
  kept.outputs = {loss.sum / divisor};
  kept_.emplace(number, std::move(kept));
  loss.sum = loss.sum.detach();
  return loss;
}

Tensors Stage::backward(std::uint64_t number, const Tensors& gradients) {
  const auto found = kept_.find(number);
  ROOKERY_CHECK(found != kept_.end(), "micro-batch {} is not on its way", number);
  Kept kept = std::move(found->second);
  kept_.erase(found);
  if (kept.outputs.empty()) {
    model::Pass again = kept.pass;
    again.again = true;
    kept.outputs = model_.forward(kept.inputs, again, layers_.begin, layers_.end);
  }
  Tensors roots, of_roots;
  for (std::size_t i = 0; i < kept.outputs.size(); ++i) {
    if (!kept.outputs[i].requires_grad()) continue;
    if (!is_last() && !gradients.at(i).defined()) continue;
    roots.push_back(kept.outputs[i]);
    of_roots.push_back(is_last() ? at::Tensor() : gradients[i].to(device_, /*non_blocking=*/true));
  }
  kept.outputs.clear();
  torch::autograd::backward(roots, of_roots);
  Tensors of_inputs;
  for (const at::Tensor& input : kept.inputs) of_inputs.push_back(input.grad());
  return of_inputs;
}

void Stage::before_change() {
  const auto needs_these = [&](const auto& entry) { return entry.second.version == version_; };
  if (mode_ != Versions::kStash || std::ranges::none_of(kept_, needs_these)) return;
  store_.renew();
  ++version_;
}

void Stage::forget() {
  kept_.clear();
  store_.zero_gradients();
  replicas_.zero_gradients();
}

void Stage::update(double lr, double scale, const Around& around) {
  before_change();
  optimizer_->step(lr, scale, around);
}

ParameterStore& Stage::replicas_to_write() {
  if (mode_ == Versions::kStash && !kept_.empty()) replicas_.renew();
  return replicas_;
}

std::size_t Stage::versions() const {
  std::set<std::uint64_t> held = {version_};
  for (const auto& [number, kept] : kept_) held.insert(kept.version);
  return held.size();
}

Tensors Stage::predict(const Tensors& inputs) const {
  const at::NoGradGuard no_gradients;
  return model_.forward(leaves_of(inputs), {}, layers_.begin, layers_.end);
}

ops::LossSum Stage::evaluate(const Tensors& inputs, const at::Tensor& targets) const {
  const at::NoGradGuard no_gradients;
  const Tensors reached = model_.forward(leaves_of(inputs), {}, layers_.begin, layers_.end - 1);
  return model_.loss(reached, targets.to(device_, /*non_blocking=*/true), {});
}

}  // namespace rookery::train
