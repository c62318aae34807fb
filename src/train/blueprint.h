#pragma once

#include <memory>
#include <string>
#include <vector>

#include "config/settings.h"
#include "data/dataset.h"
#include "model/model.h"
#include "plan/stage_memory.h"

namespace rookery::train {

// What is to be trained, before any memory is taken for its parameters: what a coordinator has to know, and what a peer
// starts from.
struct Blueprint {
  config::Settings settings;  // with all sizes filled in, and with absolute paths
  std::unique_ptr<data::Dataset> data;
  std::string data_fingerprint;
  std::unique_ptr<model::Model> model;
};

// Opens the data and builds the model. Throws InputError if either is not what the settings say, or they do not fit
// together.
Blueprint make_blueprint(config::Settings settings);

// Equal on two peers exactly if their parameters have the same names, shapes and beginnings.
std::string fingerprint(const model::Model& model);

// What training with so many copies keeps of each parameter and micro-batch.
plan::Keeping keeping_of(const config::Settings& settings, std::size_t clusters, plan::Schedule schedule);

// A file of the data, by the name that others know it under: source/…, tokenizer/…
struct DataFile {
  std::string name;
  std::filesystem::path path;
};

// The files that the data consists of; none if it is generated.
std::vector<DataFile> data_files(const config::Data& data);

// The same data where those files lie in a folder.
config::Data relocated(config::Data data, const std::filesystem::path& folder);

}  // namespace rookery::train
