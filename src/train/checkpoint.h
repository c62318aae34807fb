#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "config/settings.h"
#include "tensor/optimizer.h"
#include "tensor/parameters.h"
#include "tensor/safetensors.h"

namespace rookery::train {

// How far a run has come. With the settings it decides everything that follows.
struct Position {
  std::int64_t step = 0;  // steps done
  std::int64_t samples = 0;
  std::int64_t tokens = 0;
  double seconds = 0;  // of training so far
  double loss = 0;     // of the last step

  bool operator==(const Position&) const = default;
};

// A checkpoint is the folder checkpoints/step-N: model.safetensors (parameters and buffers, by name),
// optimizer.safetensors (flat state), in swarms with such a method sync.safetensors (what it keeps), and index.json
// (position, settings, and the SHA-256 of everything, itself included). It gets its name only when all of it is on the
// disk, so a folder with that name is whole.

struct CheckpointInfo {
  std::filesystem::path path;
  Position position;
  std::int64_t optimizer_steps = 0;
  std::string data;                              // the data set's fingerprint
  bool text = false;                             // the data set has a tokenizer, so its tokens can be read
  std::int64_t clusters = 1;                     // that have trained it,
  std::int64_t batch = 0;                        // each with so many samples in a step
  std::map<std::string, std::string> made_with;  // settings that a run cannot change on its way, as JSON, by key
};

// Saves the state after `position`, then removes all but the newest `keep` checkpoints. On any failure (a full disk)
// throws InputError; earlier checkpoints are then untouched and nothing half-written is left.
void save_checkpoint(const std::filesystem::path& checkpoints, const CheckpointInfo& info, ParameterStore& store,
                     Optimizer& optimizer, std::int64_t keep, std::span<const NamedTensor> method_state = {});

// Makes a folder that was written elsewhere, and is whole, the checkpoint of that step. Throws InputError if it is of
// another.
void take_checkpoint(const std::filesystem::path& checkpoints, const std::filesystem::path& folder, std::int64_t step,
                     std::int64_t keep);

// The newest checkpoint's folder, if there is any.
std::optional<std::filesystem::path> newest_checkpoint(const std::filesystem::path& checkpoints);

// What index.json says. Throws InputError if it is missing, malformed or damaged.
CheckpointInfo read_checkpoint_info(const std::filesystem::path& checkpoint);

// Checks every file against the index, so that a damaged checkpoint is noticed before anything is changed.
void verify_checkpoint(const std::filesystem::path& checkpoint);

// Restores parameters and buffers; and the optimizer, if given. Throws InputError naming file and tensor, also if the
// file has tensors that the store lacks.
void load_checkpoint(const CheckpointInfo& info, ParameterStore& store, Optimizer* optimizer);

// What a method had kept; nullptr if the checkpoint has nothing of that kind.
std::unique_ptr<SafetensorsFile> open_method_state(const CheckpointInfo& info);
void load_method_state(const SafetensorsFile& file, std::span<const NamedTensor> method_state);

std::filesystem::path model_file(const std::filesystem::path& checkpoint);

// What a checkpoint depends on: with another value of these keys, as JSON, a run would not be the same run.
std::map<std::string, std::string> identity(const config::Settings& settings);

// Throws InputError, naming the key, if a checkpoint was made by another run than the one that settings and data
// describe.
void check_identity(const CheckpointInfo& info, const config::Settings& settings, const std::string& data_fingerprint);

}  // namespace rookery::train
