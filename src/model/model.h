#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "model/layer.h"

namespace rookery::model {

// A chain of layers; the last is a Head. Holds no memory of its own: bind a range of layers with a ParameterStore.
class Model {
 public:
  Model(std::string kind, std::vector<std::unique_ptr<Layer>> layers, std::unique_ptr<Head> head);

  const std::string& kind() const { return kind_; }
  std::size_t size() const { return layers_.size(); }  // layers, the head included
  Layer& layer(std::size_t i) const { return *layers_.at(i); }
  Head& head() const { return *head_; }

  // All parameters (or buffers) of layers [begin, end), in order; tied ones as often as they are used.
  std::vector<Parameter> parameters(std::size_t begin, std::size_t end) const;
  std::vector<Parameter> buffers(std::size_t begin, std::size_t end) const;
  std::vector<Parameter> parameters() const { return parameters(0, size()); }
  std::vector<Parameter> buffers() const { return buffers(0, size()); }

  // The number of distinct trained values: what is tied counts once.
  std::int64_t parameter_count() const;

  // Runs layers [begin, end) on `inputs`.
  Tensors forward(Tensors inputs, const Pass& pass, std::size_t begin, std::size_t end) const;

  // Predictions for a batch's inputs: {logits}.
  Tensors predict(Tensors inputs) const { return forward(std::move(inputs), {}, 0, size()); }

  // The loss, from what has reached the head.
  ops::LossSum loss(const Tensors& reached, const at::Tensor& targets, const Pass& pass) const;

 private:
  std::string kind_;
  std::vector<std::unique_ptr<Layer>> layers_;
  Head* head_;
};

// What a model is built from. Zero means: the default of the kind or preset, or what the data says.
struct ModelOptions {
  std::string kind = "gpt";
  std::int64_t layers = 0;
  std::int64_t width = 0;
  std::int64_t heads = 0;
  std::int64_t hidden = 0;   // width of feed-forward layers; 4·width by default
  std::int64_t context = 0;  // tokens a sample may have
  std::int64_t vocabulary = 0;
  double dropout = 0;
  std::int64_t classes = 0;
  std::int64_t channels = 0;
  std::int64_t image_size = 0;  // height and width
  std::string stem = "auto";    // of a resnet: cifar, imagenet, or by the size of the images
};

// Fills in the fields that are 0 from `sizes`: a Kind::complete for models without further rules.
std::function<ModelOptions(ModelOptions)> defaults(const ModelOptions& sizes);

struct Kind {
  std::string name;
  Problem problem;
  std::string summary;                                               // one line, for lists
  std::function<ModelOptions(ModelOptions)> complete;                // fills in what is 0
  std::function<std::unique_ptr<Model>(const ModelOptions&)> build;  // from complete options
};

// Adds a kind of model, which then works in every command and configuration. Call before others use the registry.
void register_kind(Kind kind);

// Throws InputError with the nearest name if there is no such kind.
const Kind& find_kind(const std::string& name);
std::vector<std::string> kind_names();

// Completes the options, checks them (e.g. that heads divide width) and builds. Throws InputError naming the key.
std::unique_ptr<Model> build_model(const ModelOptions& options);
ModelOptions complete_options(const ModelOptions& options);

}  // namespace rookery::model
