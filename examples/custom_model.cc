// A model of your own in Rookery: an MLP-Mixer for small images. Registering it makes it a kind like the built-in ones,
// in every command:
//
//   build/custom_model train --set model.kind=mixer --set data.source=data/mnist
//   build/custom_model inspect --model mixer
#include <ATen/ATen.h>

#include "cli/cli.h"
#include "model/model.h"

namespace {

using namespace rookery;
using model::ModelOptions;

// Cuts images into columns and maps each to `width` features.   {(B, C, H, W)} → {(B, W, width)}
class Columns final : public model::Layer {
 public:
  explicit Columns(const ModelOptions& o)
      : Layer("columns"),
        linear_{weight("weight", {o.width, o.channels * o.image_size}, Initializer::normal(0.05)), vector("bias", o.width)} {}

  Tensors forward(const Tensors& inputs, const model::Pass&) override {
    return {linear_(inputs[0].permute({0, 3, 1, 2}).flatten(2))};
  }

 private:
  model::LinearParameters linear_;
};

// Mixes between columns, then between features; each on a residual branch.   {(B, T, D)} → {(B, T, D)}
class Mixer final : public model::Layer {
 public:
  Mixer(const std::string& name, const ModelOptions& o)
      : Layer(name),
        norm_{vector("norm.weight", o.width, 1), vector("norm.bias", o.width)},
        tokens_{weight("tokens.weight", {o.image_size, o.image_size}, Initializer::normal(0.05)), vector("tokens.bias", o.image_size)},
        features_{weight("features.weight", {o.width, o.width}, Initializer::normal(0.05)), vector("features.bias", o.width)} {}

  Tensors forward(const Tensors& inputs, const model::Pass&) override {
    const at::Tensor mixed = tokens_(norm_(inputs[0]).transpose(1, 2), ops::Activation::kGelu).transpose(1, 2);
    const at::Tensor x = inputs[0] + mixed;
    return {features_(x, ops::Activation::kGelu, x)};
  }

 private:
  model::NormParameters norm_;
  model::LinearParameters tokens_, features_;
};

// Scores of the classes from the mean over columns. The loss of a Head is cross-entropy unless it says otherwise.
class Scores final : public model::Head {
 public:
  explicit Scores(const ModelOptions& o)
      : Head("head"), linear_{weight("weight", {o.classes, o.width}, Initializer::normal(0.05)), vector("bias", o.classes)} {}

  Tensors forward(const Tensors& inputs, const model::Pass&) override { return {linear_(inputs[0].mean(1))}; }

 private:
  model::LinearParameters linear_;
};

std::unique_ptr<model::Model> make_mixer(const ModelOptions& o) {
  std::vector<std::unique_ptr<model::Layer>> layers;
  layers.push_back(std::make_unique<Columns>(o));
  for (int i = 0; i < o.layers; ++i) layers.push_back(std::make_unique<Mixer>("mixer." + std::to_string(i), o));
  return std::make_unique<model::Model>(o.kind, std::move(layers), std::make_unique<Scores>(o));
}

}  // namespace

int main(int argc, char** argv) {
  model::register_kind({.name = "mixer",
                        .task = Task::kClassification,
                        .summary = "MLP-Mixer over the columns of an image",
                        .complete = model::defaults({.layers = 2, .width = 64, .classes = 10, .channels = 1, .image_size = 28}),
                        .build = make_mixer});
  return cli::run(argc, argv);
}
