#include "train/tensor_compute.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "train/learner.h"
#include "train/tensor_border.h"

namespace rookery::train {
namespace {

using pipeline::Border;

// The layer that brings a parameter.
std::size_t first_use(const model::Model& model, const Parameter& parameter) {
  for (std::size_t layer = 0; layer < model.size(); ++layer) {
    if (std::ranges::find(model.layer(layer).parameters(), parameter) != model.layer(layer).parameters().end()) {
      return layer;
    }
  }
  ROOKERY_CHECK(false, "{} is not in the model", parameter.spec().name);
}

// What stage `user` of a cut uses of earlier stages' parameters, by their owner.
std::map<std::size_t, std::vector<Parameter>> replicas_of(const model::Model& model, const plan::Cut& cut,
                                                          std::size_t user) {
  std::map<std::size_t, std::vector<Parameter>> result;
  for (const Parameter& parameter : model.parameters(cut[user].begin, cut[user].end)) {
    const std::size_t layer = first_use(model, parameter);
    if (layer >= cut[user].begin) continue;
    const auto owner = std::ranges::find_if(cut, [&](const plan::Layers& stage) { return layer < stage.end; });
    auto& own = result[static_cast<std::size_t>(owner - cut.begin())];
    if (std::ranges::find(own, parameter) == own.end()) own.push_back(parameter);
  }
  return result;
}

std::vector<Tied::Range> ranges_of(const ParameterStore& store, const std::vector<Parameter>& parameters) {
  std::vector<Tied::Range> ranges;
  const std::vector<Parameter> entries = store.entries();
  for (const Parameter& parameter : parameters) {
    const auto found = std::ranges::find(entries, parameter);
    ROOKERY_CHECK(found != entries.end(), "{} is not here", parameter.spec().name);
    const ParameterRange& range = store.ranges()[static_cast<std::size_t>(found - entries.begin())];
    ranges.push_back({static_cast<std::size_t>(range.begin), static_cast<std::size_t>(range.end)});
  }
  return ranges;
}

}  // namespace

std::vector<TiedNames> tied_parameters(const model::Model& model, const plan::Cut& cut, std::size_t stage) {
  std::vector<TiedNames> result;
  for (const auto& [owner, parameters] : replicas_of(model, cut, stage)) result.push_back({false, owner, parameters});
  for (std::size_t user = stage + 1; user < cut.size(); ++user) {
    const auto all = replicas_of(model, cut, user);
    const auto mine = all.find(stage);
    if (mine != all.end()) result.push_back({true, user, mine->second});
  }
  return result;
}

std::vector<std::span<float>> TensorCompute::moments() {
  std::vector<std::span<float>> moments;
  for (const auto& state : trainee_.stage().optimizer().state()) moments.push_back(floats(state.values));
  return moments;
}

std::vector<Tied> TensorCompute::ties(const plan::Cut& cut, std::size_t stage) const {
  std::vector<Tied> result;
  for (const TiedNames& tied : tied_parameters(trainee_.model(), cut, stage)) {
    const ParameterStore& where = tied.owns ? store() : trainee_.stage().replicas();
    result.push_back({tied.owns, tied.other, ranges_of(where, tied.parameters)});
  }
  return result;
}

const Batch& TensorCompute::batch(std::int64_t first) {
  if (!batch_ || batch_->first != first) batch_.emplace(first, trainee_.batch(first));
  return batch_->second;
}

Batch TensorCompute::slice_of(Samples samples) {
  return slice(batch(samples.first), samples.part, settings().train.micro_batches);
}

bool TensorCompute::terms_vary() const {
  const Problem problem = trainee_.data().info().problem;
  return problem == Problem::kMaskedLanguageModel || problem == Problem::kTranslation;
}

std::int64_t TensorCompute::terms(Samples samples) { return slice_of(samples).loss_terms; }

void TensorCompute::begin(std::uint64_t step, Pace::Kind kind) {
  if (pace_ != nullptr) pace_->begin(static_cast<std::int64_t>(step), kind);
}

void TensorCompute::keep_pace() {
  if (pace_ != nullptr) pace_->keep();
}

Task<Border> TensorCompute::forward(MicroBatch micro_batch, Border input, LossSums& sums) {
  begin(micro_batch.step, Pace::Kind::kForward);
  on_their_way_[micro_batch.number] = {micro_batch.step, micro_batch.is_last};
  Batch data;
  if (is_first() || is_last()) data = slice_of(micro_batch.samples);
  const Tensors inputs = is_first() ? data.inputs : to_tensors(input);
  model::Pass pass{.training = true,
                   .key = trainee_.dropout_key(micro_batch.step, micro_batch.cluster) + micro_batch.index};
  if (micro_batch.reached) {
    pass.reached = [this, reached = std::move(micro_batch.reached)](std::size_t layer) {
      keep_pace();
      reached(layer);
    };
  }
  Border output;
  if (is_last()) {
    const ops::LossSum loss =
        trainee_.stage().loss(micro_batch.number, inputs, data.targets, pass, micro_batch.divisor);
    sums.loss += loss.sum.item<double>();
    sums.terms += static_cast<double>(data.loss_terms);
    sums.samples += static_cast<std::uint64_t>(data.samples);
    sums.tokens += static_cast<std::uint64_t>(data.tokens);
  } else {
    output = to_border(trainee_.stage().forward(micro_batch.number, inputs, pass));
  }
  keep_pace();
  co_return output;
}

void TensorCompute::forget() {
  on_their_way_.clear();
  trainee_.stage().forget();
}

Task<Border> TensorCompute::backward(std::uint64_t number, Border gradients) {
  const auto [step, is_last] = on_their_way_.at(number);
  on_their_way_.erase(number);
  begin(step, is_last ? Pace::Kind::kLastBackward : Pace::Kind::kBackward);
  Border back = to_border(trainee_.stage().backward(number, to_tensors(gradients)));
  keep_pace();
  co_return back;
}

Task<> TensorCompute::update(double lr, double scale, Around around) {
  trainee_.stage().update(lr, scale, around);
  trainee_.stage().store().zero_gradients();
  co_return;
}

Task<> TensorCompute::change(std::uint64_t step, std::function<void()> how) {
  begin(step, Pace::Kind::kOther);
  trainee_.stage().before_change();
  how();
  keep_pace();
  co_return;
}

Task<Border> TensorCompute::evaluate(data::Split split, std::uint64_t begin, std::uint64_t end, Border input,
                                     LossSums& sums) {
  Batch data;
  if (is_first() || is_last()) data = trainee_.batch(split, begin, end);
  const Tensors inputs = is_first() ? data.inputs : to_tensors(input);
  if (!is_last()) co_return to_border(trainee_.stage().predict(inputs));
  const ops::LossSum loss = trainee_.stage().evaluate(inputs, data.targets);
  sums.loss += loss.sum.item<double>();
  sums.correct += static_cast<double>(loss.correct);
  sums.terms += static_cast<double>(data.loss_terms);
  co_return Border{};
}

}  // namespace rookery::train
