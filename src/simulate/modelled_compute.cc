#include "simulate/modelled_compute.h"

#include <algorithm>
#include <cmath>

#include "train/blueprint.h"
#include "train/tensor_compute.h"

namespace rookery::simulate {

using pipeline::Border;
using train::Tied;

ModelledCompute::ModelledCompute(const config::Settings& settings, const model::Model& model,
                                 const plan::ModelProfile& profile, plan::Layers layers, double scale)
    : settings_(settings), model_(model), profile_(profile), own_(layers), scale_(scale), begins_{0} {
  std::size_t replicas = 0;
  for (std::size_t layer = layers.begin; layer < layers.end; ++layer) {
    begins_.push_back(begins_.back() + scaled(profile[layer].parameters));
    replicas += scaled(profile[layer].replicas);
  }
  parameters_.resize(begins_.back());
  gradients_.resize(begins_.back());
  replicas_.resize(replicas);
  replica_gradients_.resize(replicas);
  if (!settings.sync.average_moments) return;
  const std::size_t vectors = train::keeping_of(settings, 1, plan::Schedule::k1f1b).optimizer_values;
  moments_.assign(vectors, std::vector<float>(begins_.back()));
}

// At least one of what there is.
std::size_t ModelledCompute::scaled(std::uint64_t values) const {
  if (values == 0) return 0;
  return std::max<std::size_t>(1, static_cast<std::size_t>(std::llround(static_cast<double>(values) / scale_)));
}

// Where tied values lie does not matter, only how many there are.
std::vector<Tied> ModelledCompute::ties(const plan::Cut& cut, std::size_t stage) const {
  std::vector<Tied> result;
  std::size_t replicas = 0;
  for (const train::TiedNames& names : train::tied_parameters(model_, cut, stage)) {
    Tied& tied = result.emplace_back(Tied{.owns = names.owns, .other = names.other});
    std::size_t begin = names.owns ? 0 : replicas;
    for (const Parameter& parameter : names.parameters) {
      const std::size_t size = scaled(static_cast<std::uint64_t>(parameter.spec().elements()));
      tied.ranges.push_back({begin, begin + size});
      begin += size;
    }
    if (!names.owns) replicas = begin;
  }
  return result;
}

// One tensor of floats.
Border ModelledCompute::border_of(Bytes bytes) {
  const std::size_t values = scaled(static_cast<std::uint64_t>(bytes) / sizeof(float));
  if (!zeros_ || zeros_->size() < values) zeros_ = std::make_shared<std::vector<float>>(values);
  Border border;
  border.tensors.push_back({.type = pipeline::TensorType::kFloat,
                            .shape = {1, 1, values},  // as those of a transformer
                            .bytes = std::as_bytes(std::span(*zeros_).first(values)),
                            .keeper = zeros_});
  return border;
}

Task<Border> ModelledCompute::forward(train::MicroBatch /*micro_batch*/, Border /*input*/, train::LossSums& sums) {
  if (own_.end < model_.size()) co_return border_of(profile_[own_.end - 1].border);
  const auto samples = static_cast<std::uint64_t>(settings_.train.batch / settings_.train.micro_batches);
  sums.samples += samples;
  co_return Border{};
}

Task<Border> ModelledCompute::backward(std::uint64_t /*number*/, Border /*gradients*/) {
  if (own_.begin == 0) co_return Border{};
  co_return border_of(profile_[own_.begin - 1].gradients);
}

// What the method does on the occasion is done.
Task<> ModelledCompute::update(double /*lr*/, double /*scale*/, Around around) {
  if (around.before) around.before(0, parameters_.size());
  if (around.after) around.after(0, parameters_.size());
  co_return;
}

Task<> ModelledCompute::change(std::uint64_t /*step*/, std::function<void()> how) {
  how();
  co_return;
}

Task<Border> ModelledCompute::evaluate(data::Split /*split*/, std::uint64_t /*begin*/, std::uint64_t /*end*/,
                                       Border /*input*/, train::LossSums& /*sums*/) {
  co_return Border{};
}

}  // namespace rookery::simulate
