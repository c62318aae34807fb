#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "model/model.h"
#include "plan/stage_memory.h"
#include "tensor/optimizer.h"
#include "tensor/parameters.h"

namespace rookery::train {

// Some consecutive layers of a model with their memory and optimizer: all of it on a peer alone, a part of it on a peer
// of a pipeline. Micro-batches go forward and come back by their numbers; several may be on their way.
//
// Parameters that an earlier stage owns and layers here use, too, are replicas: they are held here, but updated there.
// Lives on the compute thread.
class Stage {
 public:
  // Takes memory for these layers and no others. The model outlives this.
  Stage(const model::Model& model, plan::Layers layers, plan::Versions versions, const OptimizerOptions& optimizer,
        at::Device device);

  bool is_last() const { return layers_.end == model_.size(); }

  // Sets parameters and buffers to what they are at the beginning of a run, however the model is cut.
  void initialize(std::uint64_t seed);
  void begin_empty();  // somebody else will give the parameters

  // Passes a micro-batch on, and keeps what its backward needs. Requires: not the last stage.
  Tensors forward(std::uint64_t number, const Tensors& inputs, const model::Pass& pass);

  // On the last stage: the summed loss, whose gradients are divided by `divisor` in backward.
  ops::LossSum loss(std::uint64_t number, const Tensors& inputs, const at::Tensor& targets, const model::Pass& pass,
                    double divisor);

  // Adds what a micro-batch contributes to the gradients, given those of its outputs (none on the last stage). Returns
  // those of its inputs; undefined where there are none.
  Tensors backward(std::uint64_t number, const Tensors& gradients);

  // What is on its way will not come back; the gradients are zero again.
  void forget();

  // Moves the parameters by `scale` times the gradients. Micro-batches that are on their way find the weights of their
  // forward, if versions are stashed.
  void update(double lr, double scale, const Around& around = {});

  // The same for whoever changes the parameters by other means: to be called before.
  void before_change();

  // Outputs and losses without training.
  Tensors predict(const Tensors& inputs) const;
  ops::LossSum evaluate(const Tensors& inputs, const at::Tensor& targets) const;

  plan::Layers layers() const { return layers_; }
  at::Device device() const { return device_; }
  ParameterStore& store() { return store_; }
  const ParameterStore& store() const { return store_; }
  ParameterStore& replicas() { return replicas_; }
  const ParameterStore& replicas() const { return replicas_; }

  // The same for whoever gives them other values: micro-batches on their way find those of their forward, if versions
  // are stashed.
  ParameterStore& replicas_to_write();
  Optimizer& optimizer() { return *optimizer_; }
  const Optimizer& optimizer() const { return *optimizer_; }

  // Where its parameters begin in the flat vector of the whole model.
  std::size_t first() const { return first_; }

  // Where the parameters that a layer brings begin in the store, and its buffers; `layer` counts from the model's
  // first, up to the end of these.
  std::size_t begin_of(std::size_t layer) const { return begins_.at(layer - layers_.begin); }
  std::size_t buffers_begin_of(std::size_t layer) const { return buffer_begins_.at(layer - layers_.begin); }

  std::size_t on_their_way() const { return kept_.size(); }
  std::size_t versions() const;  // of the weights that are in memory, with the current ones

 private:
  // A micro-batch on its way.
  struct Kept {
    Tensors inputs;   // leaves
    Tensors outputs;  // or the loss to go back from; empty if the forward is to be done again
    model::Pass pass;
    std::uint64_t version = 0;
  };

  Tensors leaves_of(const Tensors& inputs) const;

  const model::Model& model_;
  plan::Layers layers_;
  plan::Versions mode_;
  at::Device device_;
  ParameterStore store_, replicas_;
  std::unique_ptr<Optimizer> optimizer_;
  std::size_t first_;
  std::vector<std::size_t> begins_, buffer_begins_;
  std::uint64_t version_ = 0;  // how often the weights got other memory
  std::map<std::uint64_t, Kept> kept_;
};

}  // namespace rookery::train
