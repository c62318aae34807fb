#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tensor/batch.h"
#include "tensor/ops.h"
#include "tensor/parameters.h"

namespace rookery::model {

// The fully connected layer inside other layers: weight (out, in) and bias (out).
struct LinearParameters {
  Parameter weight;
  Parameter bias;

  at::Tensor operator()(const at::Tensor& x, ops::Activation activation = ops::Activation::kNone,
                        const at::Tensor& residual = {}) const {
    return ops::linear(x, weight.tensor(), bias.tensor(), activation, residual);
  }
};

// The layer norm inside other layers.
struct NormParameters {
  Parameter weight;
  Parameter bias;

  at::Tensor operator()(const at::Tensor& x) const { return ops::layer_norm(x, weight.tensor(), bias.tensor()); }
};

// What a layer may know about the pass it is part of.
struct Pass {
  bool training = false;
  std::uint64_t key = 0;  // for dropout: differs between steps and micro-batches, equal when one is computed again
  bool again = false;     // it is computed again: what a layer keeps of its inputs (batch norm) was kept before

  // Called during the backward pass, if set, when the gradients of all layers from this one on are complete. Layers may
  // be left out, and come in any order.
  std::function<void(std::size_t layer)> reached{};
};

// One link of a model's chain. A model can be cut before any layer, so what it needs from earlier ones arrives in
// `inputs` and what later ones need is in its result, also where it only rides along.
//
// A layer is built without memory: it declares parameters, and a ParameterStore binds them where the layer runs.
class Layer {
 public:
  explicit Layer(std::string name) : name_(std::move(name)) {}
  virtual ~Layer() = default;
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;

  // Requires: the parameters are bound. Integer tensors carry no gradient.
  virtual Tensors forward(const Tensors& inputs, const Pass& pass) = 0;

  const std::string& name() const { return name_; }
  std::span<const Parameter> parameters() const { return parameters_; }
  std::span<const Parameter> buffers() const { return buffers_; }

 protected:
  // Declares a parameter called NAME.suffix, e.g. "block.0.attention.weight". Weights decay; see vector() for others.
  Parameter weight(const std::string& suffix, std::vector<std::int64_t> shape, Initializer initializer);
  // A bias or the scale of a norm: no weight decay.
  Parameter vector(const std::string& suffix, std::int64_t length, double start = 0);
  // A fully connected layer: SUFFIX.weight and SUFFIX.bias; and a layer norm, which starts as the identity.
  LinearParameters linear(const std::string& suffix, std::int64_t in, std::int64_t out, Initializer initializer);
  NormParameters norm(const std::string& suffix, std::int64_t width);
  // Uses another layer's parameter: the two are tied.
  Parameter tied(Parameter parameter);
  // A value that is not trained but belongs to the model: batch-norm statistics.
  Parameter buffer(const std::string& suffix, std::int64_t length, double start);

  // x with dropout if the pass is for training. `place` tells apart the uses within one layer.
  at::Tensor dropped(const at::Tensor& x, double probability, const Pass& pass, std::uint64_t place = 0) const;

 private:
  std::string name_;
  std::vector<Parameter> parameters_;
  std::vector<Parameter> buffers_;
};

// The last layer of a model: makes predictions, and compares them with targets.
class Head : public Layer {
 public:
  using Layer::Layer;

  // forward() gives {logits}: (B, T, vocabulary) for text, (B, classes) for images.
  virtual ops::LossSum loss(const Tensors& inputs, const at::Tensor& targets, const Pass& pass);
};

}  // namespace rookery::model
