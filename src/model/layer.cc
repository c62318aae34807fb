#include "model/layer.h"

#include "base/random.h"

namespace rookery::model {

Parameter Layer::weight(const std::string& suffix, std::vector<std::int64_t> shape, Initializer initializer) {
  return parameters_.emplace_back(ParameterSpec{name_ + "." + suffix, std::move(shape), initializer, true});
}

Parameter Layer::vector(const std::string& suffix, std::int64_t length, double start) {
  return parameters_.emplace_back(ParameterSpec{name_ + "." + suffix, {length}, Initializer::constant(start), false});
}

LinearParameters Layer::linear(const std::string& suffix, std::int64_t in, std::int64_t out, Initializer initializer) {
  return {weight(suffix + ".weight", {out, in}, initializer), vector(suffix + ".bias", out)};
}

NormParameters Layer::norm(const std::string& suffix, std::int64_t width) {
  return {vector(suffix + ".weight", width, 1), vector(suffix + ".bias", width)};
}

Parameter Layer::tied(Parameter parameter) { return parameters_.emplace_back(std::move(parameter)); }

Parameter Layer::buffer(const std::string& suffix, std::int64_t length, double start) {
  return buffers_.emplace_back(ParameterSpec{name_ + "." + suffix, {length}, Initializer::constant(start), false});
}

at::Tensor Layer::dropped(const at::Tensor& x, double probability, const Pass& pass, std::uint64_t place) const {
  if (!pass.training || probability <= 0) return x;
  const auto bits = Random({pass.key, word_of(name_), place}).block(0);
  return ops::dropout(x, probability, std::uint64_t{bits[0]} << 32 | bits[1]);
}

ops::LossSum Head::loss(const Tensors& inputs, const at::Tensor& targets, const Pass& pass) {
  const at::Tensor logits = forward(inputs, pass).at(0);
  return ops::cross_entropy(logits.reshape({-1, logits.size(-1)}), targets.reshape({-1}));
}

}  // namespace rookery::model
