#include <cmath>
#include <optional>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "base/error.h"
#include "model/kinds.h"

// Classifiers of images: mlp, cnn, resnet18, resnet50, vgg16. Convolutions are libtorch's (oneDNN on the CPU).
// Every border is one tensor, (B, C, H, W) until the head.
namespace rookery::model {
namespace {

using ops::Activation;

Initializer kaiming(std::int64_t fan_in) { return Initializer::normal(std::sqrt(2.0 / static_cast<double>(fan_in))); }
Initializer classic(std::int64_t fan_in) { return Initializer::uniform(1 / std::sqrt(static_cast<double>(fan_in))); }

// A convolution and its batch norm, by libtorch's operators.
struct ConvolutionShape {
  std::int64_t in, out, kernel, stride, padding;
};

// Convolution, batch norm, relu: the unit that these models repeat. A layer holds several.
struct Convolution {
  ConvolutionShape shape;
  Parameter weight, norm_weight, norm_bias, mean, variance;

  at::Tensor operator()(const at::Tensor& x, const Pass& pass) const {
    const at::Tensor y = at::conv2d(x, weight.tensor(), {}, shape.stride, shape.padding);
    constexpr double kMomentum = 0.1, kEpsilon = 1e-5;
    const at::Tensor none;
    return at::batch_norm(y, norm_weight.tensor(), norm_bias.tensor(), pass.again ? none : mean.tensor(),
                          pass.again ? none : variance.tensor(), pass.training, kMomentum, kEpsilon, false);
  }
};

class ImageLayer : public Layer {
 public:
  using Layer::Layer;

 protected:
  Convolution convolution(const std::string& place, ConvolutionShape s) {
    return {s,
            weight(place + ".weight", {s.out, s.in, s.kernel, s.kernel}, kaiming(s.in * s.kernel * s.kernel)),
            vector(place + ".norm.weight", s.out, 1),
            vector(place + ".norm.bias", s.out),
            buffer(place + ".norm.mean", s.out, 0),
            buffer(place + ".norm.variance", s.out, 1)};
  }
};

// Convolution, batch norm, relu, then perhaps max-pooling.
class ConvolutionLayer final : public ImageLayer {
 public:
  struct Pool {
    std::int64_t kernel = 0, stride = 0, padding = 0;  // kernel 0: none
  };
  ConvolutionLayer(std::string name, ConvolutionShape shape, Pool pool)
      : ImageLayer(std::move(name)), convolution_(convolution("convolution", shape)), pool_(pool) {}

  Tensors forward(const Tensors& inputs, const Pass& pass) override {
    const at::Tensor y = convolution_(inputs[0], pass).relu_();
    if (pool_.kernel == 0) return {y};
    return {at::max_pool2d(y, pool_.kernel, pool_.stride, pool_.padding)};
  }

 private:
  Convolution convolution_;
  Pool pool_;
};

// x + convolutions(x), with a 1×1 convolution on the shortcut where the shape changes.
// Basic: 3×3, 3×3. Bottleneck: 1×1, 3×3, 1×1 with four times the width at the end.
class ResidualBlock final : public ImageLayer {
 public:
  ResidualBlock(std::string name, std::int64_t in, std::int64_t width, std::int64_t stride, bool bottleneck)
      : ImageLayer(std::move(name)) {
    const std::int64_t out = bottleneck ? 4 * width : width;
    if (bottleneck) {
      path_ = {convolution("1", {in, width, 1, 1, 0}), convolution("2", {width, width, 3, stride, 1}),
               convolution("3", {width, out, 1, 1, 0})};
    } else {
      path_ = {convolution("1", {in, width, 3, stride, 1}), convolution("2", {width, out, 3, 1, 1})};
    }
    if (stride != 1 || in != out) shortcut_ = convolution("shortcut", {in, out, 1, stride, 0});
  }

  Tensors forward(const Tensors& inputs, const Pass& pass) override {
    at::Tensor y = inputs[0];
    for (std::size_t i = 0; i < path_.size(); ++i) {
      y = path_[i](y, pass);
      if (i + 1 < path_.size()) y.relu_();
    }
    y.add_(shortcut_ ? (*shortcut_)(inputs[0], pass) : inputs[0]);
    return {y.relu_()};
  }

 private:
  std::vector<Convolution> path_;
  std::optional<Convolution> shortcut_;
};

// A fully connected layer on flattened images, with relu.
class DenseLayer final : public Layer {
 public:
  DenseLayer(std::string name, std::int64_t in, std::int64_t out, double dropout)
      : Layer(std::move(name)), dropout_(dropout), linear_(linear("linear", in, out, kaiming(in))) {}

  Tensors forward(const Tensors& inputs, const Pass& pass) override {
    return {dropped(linear_(inputs[0].flatten(1), Activation::kRelu), dropout_, pass)};
  }

 private:
  double dropout_;
  LinearParameters linear_;
};

// Scores of the classes. Images that are still images are averaged over their pixels first.
class ClassHead final : public Head {
 public:
  ClassHead(std::int64_t in, std::int64_t classes)
      : Head("head"), linear_(linear("linear", in, classes, classic(in))) {}

  Tensors forward(const Tensors& inputs, const Pass&) override {
    const at::Tensor& x = inputs[0];
    return {linear_(x.dim() == 4 ? x.mean({2, 3}) : x)};
  }

 private:
  LinearParameters linear_;
};

std::unique_ptr<Model> make_resnet(const ModelOptions& o, std::vector<std::int64_t> blocks, bool bottleneck) {
  if (o.stem != "cifar" && o.stem != "imagenet") {
    throw InputError("model.stem must be auto, cifar or imagenet, not '{}'", o.stem);
  }
  std::vector<std::unique_ptr<Layer>> layers;
  if (o.stem == "imagenet") {
    layers.push_back(std::make_unique<ConvolutionLayer>("stem", ConvolutionShape{o.channels, o.width, 7, 2, 3},
                                                        ConvolutionLayer::Pool{3, 2, 1}));
  } else {
    layers.push_back(std::make_unique<ConvolutionLayer>("stem", ConvolutionShape{o.channels, o.width, 3, 1, 1},
                                                        ConvolutionLayer::Pool{}));
  }
  std::int64_t in = o.width, width = o.width;
  for (std::size_t group = 0; group < blocks.size(); ++group, width *= 2) {
    for (std::int64_t i = 0; i < blocks[group]; ++i) {
      const std::int64_t stride = group > 0 && i == 0 ? 2 : 1;
      layers.push_back(
          std::make_unique<ResidualBlock>(fmt::format("group.{}.{}", group, i), in, width, stride, bottleneck));
      in = bottleneck ? 4 * width : width;
    }
  }
  return std::make_unique<Model>(o.kind, std::move(layers), std::make_unique<ClassHead>(in, o.classes));
}

}  // namespace

std::unique_ptr<Model> make_mlp(const ModelOptions& o) {
  std::vector<std::unique_ptr<Layer>> layers;
  std::int64_t in = o.channels * o.image_size * o.image_size;
  for (std::int64_t i = 0; i < o.layers; ++i) {
    layers.push_back(std::make_unique<DenseLayer>(fmt::format("dense.{}", i), in, o.width, o.dropout));
    in = o.width;
  }
  return std::make_unique<Model>(o.kind, std::move(layers), std::make_unique<ClassHead>(in, o.classes));
}

std::unique_ptr<Model> make_cnn(const ModelOptions& o) {
  std::vector<std::unique_ptr<Layer>> layers;
  std::int64_t in = o.channels, out = o.width, size = o.image_size;
  for (std::int64_t i = 0; i < o.layers; ++i, in = out, out *= 2, size /= 2) {
    if (size < 2)
      throw InputError("model.layers: images of {} pixels are too small for {} layers", o.image_size, o.layers);
    layers.push_back(std::make_unique<ConvolutionLayer>(
        fmt::format("convolution.{}", i), ConvolutionShape{in, out, 3, 1, 1}, ConvolutionLayer::Pool{2, 2, 0}));
    if (i + 1 == o.layers) {
      constexpr std::int64_t kDense = 128;
      layers.push_back(std::make_unique<DenseLayer>("dense", out * (size / 2) * (size / 2), kDense, o.dropout));
      return std::make_unique<Model>(o.kind, std::move(layers), std::make_unique<ClassHead>(kDense, o.classes));
    }
  }
  ROOKERY_CHECK(false, "layers = {}", o.layers);
}

std::unique_ptr<Model> make_resnet18(const ModelOptions& o) { return make_resnet(o, {2, 2, 2, 2}, false); }
std::unique_ptr<Model> make_resnet50(const ModelOptions& o) { return make_resnet(o, {3, 4, 6, 3}, true); }

std::unique_ptr<Model> make_vgg16(const ModelOptions& o) {
  std::vector<std::unique_ptr<Layer>> layers;
  const std::vector<std::int64_t> repeats = {2, 2, 3, 3, 3};
  std::int64_t in = o.channels, width = o.width, size = o.image_size;
  for (std::size_t group = 0; group < repeats.size(); ++group) {
    for (std::int64_t i = 0; i < repeats[group]; ++i) {
      const bool last = i + 1 == repeats[group];
      if (last && size < 2) throw InputError("model.image_size: vgg16 needs images of at least 32 pixels");
      layers.push_back(
          std::make_unique<ConvolutionLayer>(fmt::format("group.{}.{}", group, i), ConvolutionShape{in, width, 3, 1, 1},
                                             last ? ConvolutionLayer::Pool{2, 2, 0} : ConvolutionLayer::Pool{}));
      in = width;
    }
    size /= 2;
    width = std::min<std::int64_t>(2 * width, 8 * o.width);
  }
  constexpr std::int64_t kDense = 4096;
  const std::int64_t dense = size == 1 ? 512 : kDense;  // CIFAR's single pixel needs no more
  layers.push_back(std::make_unique<DenseLayer>("dense.0", in * size * size, dense, o.dropout));
  layers.push_back(std::make_unique<DenseLayer>("dense.1", dense, dense, o.dropout));
  return std::make_unique<Model>(o.kind, std::move(layers), std::make_unique<ClassHead>(dense, o.classes));
}

}  // namespace rookery::model
