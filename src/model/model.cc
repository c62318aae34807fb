#include "model/model.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/suggest.h"
#include "model/kinds.h"

namespace rookery::model {
namespace {

std::map<std::string, Kind>& registry() {
  static std::map<std::string, Kind> kinds = [] {
    std::map<std::string, Kind> built_in;
    for (Kind& kind : built_in_kinds()) built_in.emplace(kind.name, std::move(kind));
    return built_in;
  }();
  return kinds;
}

void require_positive(const char* key, std::int64_t value) {
  if (value <= 0) throw InputError("model.{} must be positive, not {}", key, value);
}

void check(const ModelOptions& o, Problem problem) {
  if (o.dropout < 0 || o.dropout >= 1) throw InputError("model.dropout must be in [0, 1), not {}", o.dropout);
  require_positive("layers", o.layers);
  require_positive("width", o.width);
  if (problem == Problem::kClassification) {
    require_positive("classes", o.classes);
    require_positive("channels", o.channels);
    require_positive("image_size", o.image_size);
    return;
  }
  require_positive("heads", o.heads);
  require_positive("context", o.context);
  require_positive("vocabulary", o.vocabulary);
  if (o.width % o.heads != 0) {
    throw InputError("model.width ({}) must be a multiple of model.heads ({})", o.width, o.heads);
  }
}

// What crosses the border before a layer has its gradient once everything behind it has been through the backward pass.
void watch_border(const Tensors& inputs, std::size_t layer, const std::function<void(std::size_t)>& reached) {
  const auto missing = std::make_shared<std::size_t>(0);
  for (const at::Tensor& input : inputs) {
    if (!input.requires_grad()) continue;
    ++*missing;
    input.register_hook([missing, layer, reached](const at::Tensor&) {
      if (--*missing == 0) reached(layer);
    });
  }
}

}  // namespace

Model::Model(std::string kind, std::vector<std::unique_ptr<Layer>> layers, std::unique_ptr<Head> head)
    : kind_(std::move(kind)), layers_(std::move(layers)), head_(head.get()) {
  layers_.push_back(std::move(head));
}

std::vector<Parameter> Model::parameters(std::size_t begin, std::size_t end) const {
  std::vector<Parameter> all;
  for (std::size_t i = begin; i < end; ++i) {
    all.insert(all.end(), layer(i).parameters().begin(), layer(i).parameters().end());
  }
  return all;
}

std::vector<Parameter> Model::buffers(std::size_t begin, std::size_t end) const {
  std::vector<Parameter> all;
  for (std::size_t i = begin; i < end; ++i) {
    all.insert(all.end(), layer(i).buffers().begin(), layer(i).buffers().end());
  }
  return all;
}

std::int64_t Model::parameter_count() const {
  std::vector<Parameter> seen;
  std::int64_t count = 0;
  for (const Parameter& parameter : parameters()) {
    if (std::find(seen.begin(), seen.end(), parameter) != seen.end()) continue;
    seen.push_back(parameter);
    count += parameter.spec().elements();
  }
  return count;
}

Tensors Model::forward(Tensors inputs, const Pass& pass, std::size_t begin, std::size_t end) const {
  for (std::size_t i = begin; i < end; ++i) {
    if (pass.reached) watch_border(inputs, i, pass.reached);
    inputs = layer(i).forward(inputs, pass);
  }
  return inputs;
}

ops::LossSum Model::loss(const Tensors& reached, const at::Tensor& targets, const Pass& pass) const {
  if (pass.reached) watch_border(reached, size() - 1, pass.reached);
  return head_->loss(reached, targets, pass);
}

std::function<ModelOptions(ModelOptions)> defaults(const ModelOptions& sizes) {
  return [sizes](ModelOptions o) {
    for (const auto field : {&ModelOptions::layers, &ModelOptions::width, &ModelOptions::heads, &ModelOptions::hidden,
                             &ModelOptions::context, &ModelOptions::vocabulary, &ModelOptions::classes,
                             &ModelOptions::channels, &ModelOptions::image_size}) {
      if (o.*field == 0) o.*field = sizes.*field;
    }
    return o;
  };
}

void register_kind(Kind kind) {
  std::string name = kind.name;
  registry().insert_or_assign(std::move(name), std::move(kind));
}

const Kind& find_kind(const std::string& name) {
  const auto found = registry().find(name);
  if (found != registry().end()) return found->second;
  throw InputError("model.kind: there is no model '{}'{}", name, did_you_mean(name, kind_names()));
}

std::vector<std::string> kind_names() {
  std::vector<std::string> names;
  for (const auto& [name, kind] : registry()) names.push_back(name);
  return names;
}

ModelOptions complete_options(const ModelOptions& options) {
  const Kind& kind = find_kind(options.kind);
  ModelOptions complete = kind.complete(options);
  if (complete.hidden == 0) complete.hidden = 4 * complete.width;
  check(complete, kind.problem);
  return complete;
}

std::unique_ptr<Model> build_model(const ModelOptions& options) {
  return find_kind(options.kind).build(complete_options(options));
}

}  // namespace rookery::model
