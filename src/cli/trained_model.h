#pragma once

#include <filesystem>
#include <memory>

#include "config/settings.h"
#include "model/model.h"
#include "tensor/parameters.h"
#include "train/checkpoint.h"

namespace rookery::cli {

// A run's newest checkpoint. Needs the run's directory alone, not its data.
struct Trained {
  config::Settings settings;
  train::CheckpointInfo checkpoint;
};

// Throws InputError if there is no run, no checkpoint, or it is damaged.
Trained find_trained(const std::filesystem::path& run);

// The model as the checkpoint has it, whole.
struct TrainedModel {
  explicit TrainedModel(const Trained& trained);

  std::unique_ptr<model::Model> model;
  std::unique_ptr<ParameterStore> store;
};

}  // namespace rookery::cli
