#include "train/trainee.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "base/random.h"
#include "train/setup.h"

namespace rookery::train {
namespace {

using data::Split;

// Keeps the draws of dropout apart from every other use of the seed.
constexpr std::uint64_t kDropout = 0x64726f70;

// Means over different samples, as one over all of them.
LossReport combined(std::span<const LossReport> reports) {
  LossReport total;
  for (const LossReport& report : reports) {
    const auto terms = static_cast<double>(report.loss_terms);
    total.loss += report.loss * terms;
    total.accuracy += report.accuracy * terms;
    total.loss_terms += report.loss_terms;
  }
  const auto terms = static_cast<double>(std::max<std::int64_t>(1, total.loss_terms));
  return {total.loss / terms, total.accuracy / terms, total.loss_terms};
}

}  // namespace

Trainee::Trainee(config::Settings settings) : Trainee(make_blueprint(std::move(settings))) {}

Trainee::Trainee(Blueprint blueprint)
    : Trainee(std::move(blueprint), {0, std::numeric_limits<std::size_t>::max()}, plan::Versions::kLatest) {}

Trainee::Trainee(Blueprint blueprint, plan::Layers layers, plan::Versions versions)
    : settings_(std::move(blueprint.settings)),
      data_(std::move(blueprint.data)),
      data_fingerprint_(std::move(blueprint.data_fingerprint)),
      sampler_(static_cast<std::uint64_t>(settings_.train.seed), data_->size(Split::kTrain)),
      model_(std::move(blueprint.model)),
      stage_(*model_, {layers.begin, std::min(layers.end, model_->size())}, versions,
             optimizer_options(settings_.train), device_of(settings_.train)) {}

Batch Trainee::batch(std::int64_t first) const {
  std::vector<data::Sampler::Place> places;
  for (std::int64_t i = 0; i < settings_.train.batch; ++i) {
    places.push_back(sampler_.at(static_cast<std::uint64_t>(first + i)));
  }
  return data_->batch(Split::kTrain, places);
}

Batch Trainee::batch(Split split, std::uint64_t begin, std::uint64_t end) const {
  const auto places = data::first_places(end);
  return data_->batch(split, std::span(places).subspan(begin));
}

std::uint64_t Trainee::dropout_key(std::uint64_t step, std::size_t cluster) const {
  const auto seed = static_cast<std::uint64_t>(settings_.train.seed);
  const auto bits = Random({seed, kDropout, step, cluster}).block(0);
  return std::uint64_t{bits[0]} << 32 | bits[1];
}

LossReport Trainee::accumulate_gradients(const Batch& batch, std::int64_t step) {
  return Learner(stage_).accumulate_gradients(batch, settings_.train.micro_batches,
                                              dropout_key(static_cast<std::uint64_t>(step), 0));
}

std::uint64_t Trainee::evaluated_samples() const {
  return static_cast<std::uint64_t>(settings_.train.eval_batches * settings_.train.batch);
}

std::optional<LossReport> Trainee::evaluate(Split split, std::uint64_t begin, std::uint64_t end,
                                            const std::atomic<bool>& stop) {
  const auto all = data::first_places(std::min(end, data_->size(split)));
  const auto places = std::span(all).subspan(std::min<std::size_t>(begin, all.size()));
  const auto batch_size = static_cast<std::size_t>(settings_.train.batch);
  std::vector<LossReport> reports;
  for (std::size_t i = 0; i < places.size(); i += batch_size) {
    if (stop) return std::nullopt;
    const auto some = places.subspan(i, std::min(batch_size, places.size() - i));
    reports.push_back(Learner(stage_).evaluate(data_->batch(split, some)));
  }
  return combined(reports);
}

}  // namespace rookery::train
