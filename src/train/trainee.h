#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include "config/settings.h"
#include "data/dataset.h"
#include "data/sampler.h"
#include "train/blueprint.h"
#include "train/learner.h"

namespace rookery::train {

// A copy of a model in training, or a stage of one, with its data: what a peer alone and a peer of a swarm have in
// common. Lives on the compute thread.
class Trainee {
 public:
  // Opens the data and builds the model. Throws InputError if either is not what the settings say, or they do not fit
  // together. The parameters are not set yet.
  explicit Trainee(config::Settings settings);
  explicit Trainee(Blueprint blueprint);

  // The same with some layers only: a stage of a pipeline.
  Trainee(Blueprint blueprint, plan::Layers layers, plan::Versions versions);

  // The settings with all sizes filled in, and with absolute paths.
  const config::Settings& settings() const { return settings_; }
  const data::Dataset& data() const { return *data_; }
  const std::string& data_fingerprint() const { return data_fingerprint_; }
  const model::Model& model() const { return *model_; }
  Stage& stage() { return stage_; }
  const Stage& stage() const { return stage_; }

  // `train.batch` samples, the run's order from `first` on.
  Batch batch(std::int64_t first) const;

  // Samples [begin, end) of a split: the same in every run with this data and seed.
  Batch batch(data::Split split, std::uint64_t begin, std::uint64_t end) const;

  // Draws the dropout masks of a cluster's step; micro-batches add their numbers.
  std::uint64_t dropout_key(std::uint64_t step, std::size_t cluster) const;

  // Sets the gradients to those of a batch, on a peer alone.
  LossReport accumulate_gradients(const Batch& batch, std::int64_t step);

  // How many samples an evaluation during training uses.
  std::uint64_t evaluated_samples() const;

  // The mean over samples [begin, end) of a split, as far as there are so many, on a peer alone. Nothing if stopped.
  std::optional<LossReport> evaluate(data::Split split, std::uint64_t begin, std::uint64_t end,
                                     const std::atomic<bool>& stop);

 private:
  config::Settings settings_;
  std::unique_ptr<data::Dataset> data_;
  std::string data_fingerprint_;
  data::Sampler sampler_;
  std::unique_ptr<model::Model> model_;
  Stage stage_;
};

}  // namespace rookery::train
