#pragma once

#include <ATen/ATen.h>

#include "model/model.h"

// A model of your own in Rookery: a small recurrent network that reads an image column by column.
namespace reader {

using namespace rookery;
using model::ModelOptions;

// {images (B, C, H, W)} → {state after the last column (B, D)}. Any libtorch operator may be used; gradients follow.
class Reader final : public model::Layer {
 public:
  explicit Reader(const ModelOptions& o)
      : Layer("reader"),
        read_(linear("read", o.channels * o.image_size, o.width, Initializer::normal(0.05))),
        keep_(linear("keep", o.width, o.width, Initializer::normal(0.05))) {}

  Tensors forward(const Tensors& inputs, const model::Pass&) override {
    const at::Tensor columns = read_(inputs[0].permute({0, 3, 1, 2}).flatten(2));  // (B, W, D)
    at::Tensor state = at::zeros_like(columns.select(1, 0));
    for (std::int64_t i = 0; i < columns.size(1); ++i) state = at::tanh(columns.select(1, i) + state + keep_(state));
    return {state};
  }

 private:
  model::LinearParameters read_, keep_;
};

// Scores of the classes. The loss of a Head is cross-entropy unless it says otherwise.
class Scores final : public model::Head {
 public:
  explicit Scores(const ModelOptions& o)
      : Head("head"), linear_(linear("linear", o.width, o.classes, Initializer::normal(0.05))) {}

  Tensors forward(const Tensors& inputs, const model::Pass&) override { return {linear_(inputs[0])}; }

 private:
  model::LinearParameters linear_;
};

inline std::unique_ptr<model::Model> make(const ModelOptions& o) {
  std::vector<std::unique_ptr<model::Layer>> layers;
  layers.push_back(std::make_unique<Reader>(o));
  return std::make_unique<model::Model>(o.kind, std::move(layers), std::make_unique<Scores>(o));
}

// From now on "reader" is a kind like the built-in ones.
inline void register_kind() {
  const auto sizes = model::defaults({.layers = 1, .width = 64, .classes = 10, .channels = 1, .image_size = 28});
  model::register_kind({"reader", Problem::kClassification, "reads an image by columns", sizes, make});
}

}  // namespace reader
