#include "train/trainee.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include "base/random.h"
#include "train/setup.h"

namespace rookery::train {
namespace {

using data::Split;

// Keeps the draws of dropout apart from every other use of the seed.
constexpr std::uint64_t kDropout = 0x64726f70;

std::uint64_t dropout_key(std::int64_t seed, std::int64_t step, std::int64_t cluster) {
  const auto word = [](std::int64_t value) { return static_cast<std::uint64_t>(value); };
  const auto bits = Random({word(seed), kDropout, word(step), word(cluster)}).block(0);
  return std::uint64_t{bits[0]} << 32 | bits[1];
}

// A path in the settings, so that it can be found from elsewhere too.
std::string absolute(const std::string& path) {
  return std::filesystem::exists(path) ? std::filesystem::absolute(path).lexically_normal().string() : path;
}

config::Data with_absolute_paths(config::Data data) {
  const std::string prefix = "sentencepiece:";
  if (!data::is_built_in(data.source)) data.source = absolute(data.source);
  if (data.tokenizer.starts_with(prefix)) data.tokenizer = prefix + absolute(data.tokenizer.substr(prefix.size()));
  return data;
}

config::Model with_sizes(config::Model model, const model::ModelOptions& o) {
  model.layers = o.layers;
  model.width = o.width;
  model.heads = o.heads;
  model.hidden = o.hidden;
  model.context = o.context;
  model.vocabulary = o.vocabulary;
  model.classes = o.classes;
  model.channels = o.channels;
  model.image_size = o.image_size;
  model.stem = o.stem;
  return model;
}

}  // namespace

Trainee::Trainee(config::Settings settings)
    : settings_(std::move(settings)),
      data_(open_data(settings_)),
      data_fingerprint_(data_->fingerprint()),
      sampler_(static_cast<std::uint64_t>(settings_.train.seed), data_->size(Split::kTrain)),
      learner_(model::build_model(fitted_model(settings_, data_->info())), optimizer_options(settings_.train),
               device_of(settings_.train)) {
  settings_.model = with_sizes(settings_.model, fitted_model(settings_, data_->info()));
  settings_.data = with_absolute_paths(settings_.data);
}

Trainee::Passed Trainee::accumulate_gradients(std::int64_t first, std::int64_t step, std::int64_t cluster,
                                              const Learner::Ready& ready) {
  const config::Train& t = settings_.train;
  std::vector<data::Sampler::Place> places;
  for (std::int64_t i = 0; i < t.batch; ++i) places.push_back(sampler_.at(static_cast<std::uint64_t>(first + i)));
  const Batch batch = data_->batch(Split::kTrain, places);
  const LossReport report =
      learner_.accumulate_gradients(batch, t.micro_batches, dropout_key(t.seed, step, cluster), ready);
  return {report, batch.samples, batch.tokens};
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
    reports.push_back(learner_.evaluate(data_->batch(split, some)));
  }
  return combined(reports);
}

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

}  // namespace rookery::train
