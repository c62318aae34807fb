#pragma once

#include <filesystem>
#include <memory>

#include "config/settings.h"
#include "model/model.h"
#include "tensor/parameters.h"
#include "train/checkpoint.h"

namespace rookery::cli {

// The model of a run as its newest checkpoint has it. Needs the run's directory alone, not its data.
struct TrainedModel {
  config::Settings settings;
  train::CheckpointInfo checkpoint;
  std::unique_ptr<model::Model> model;
  std::unique_ptr<ParameterStore> store;
};

// Throws InputError if there is no run, no checkpoint, or it is damaged.
TrainedModel load_trained_model(const std::filesystem::path& run);

}  // namespace rookery::cli
