#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "config/settings.h"
#include "tensor/safetensors.h"
#include "train/stage.h"

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

// A checkpoint is the folder checkpoints/step-N. Each peer of a cluster has written a shard of it, for the layers that
// it holds; where one peer holds all, there is one. A shard is
//   model.safetensors      parameters and buffers, by name
//   optimizer.safetensors  flat state: NAME.FIRST are the values that belong to the parameters from the FIRST on, in
//   the
//                          order of the whole model
//   sync.safetensors       the same of what the method keeps, if it keeps anything
// with "-00002-of-00003" in the names if there are several. index.json has the position, settings, shards, and the
// SHA-256 of everything, itself included. The folder gets its name only when all of it is on the disk, so a folder with
// that name is whole.
//
// Nothing in it depends on how the model was cut: whoever loads it takes the values of its own layers.

struct Shard {
  std::size_t number = 0, of = 1;
  plan::Layers layers{};

  bool operator==(const Shard&) const = default;
};

struct CheckpointInfo {
  std::filesystem::path path;
  Position position;
  std::int64_t optimizer_steps = 0;
  std::string data;                                // the data set's fingerprint
  bool text = false;                               // the data set has a tokenizer, so its tokens can be read
  std::int64_t clusters = 1;                       // that have trained it,
  std::int64_t batch = 0;                          // each with so many samples in a step,
  std::int64_t updates = 1;                        // and so many updates
  std::int64_t saving = 0;                         // which one of the run's: shards of one have the same
  std::map<std::string, std::string> made_with{};  // settings that a run cannot change on its way, as JSON, by key
  std::vector<Shard> shards{};                     // in the order of layers
};

// A piece of what is kept for every parameter of the model, by its name: from the parameter `first` on.
struct FlatState {
  std::string name;
  std::size_t first = 0;
  at::Tensor values;
};

// Saves the state of a stage after `info.position`, as the one shard that `info` has, then removes all but the newest
// `keep` checkpoints. On any failure (a full disk) throws InputError; earlier checkpoints are then untouched and
// nothing half-written is left.
void save_checkpoint(const std::filesystem::path& checkpoints, const CheckpointInfo& info, const Stage& stage,
                     std::span<const FlatState> method_state, std::int64_t keep);

// Makes folders that were written elsewhere, each with a shard, the checkpoint of that step. Throws InputError if they
// are not all shards of one checkpoint, or of another step.
void take_checkpoint(const std::filesystem::path& checkpoints, std::span<const std::filesystem::path> folders,
                     std::int64_t step, std::int64_t keep);

// The newest checkpoint's folder, if there is any that is not of a later step.
std::optional<std::filesystem::path> newest_checkpoint(
    const std::filesystem::path& checkpoints, std::int64_t last_step = std::numeric_limits<std::int64_t>::max());

// What index.json says. Throws InputError if it is missing, malformed or damaged.
CheckpointInfo read_checkpoint_info(const std::filesystem::path& checkpoint);

// Checks every file against the index, so that a damaged checkpoint is noticed before anything is changed.
void verify_checkpoint(const std::filesystem::path& checkpoint);

// Restores the parameters and buffers of a store, which may have some of the model's layers or all. Throws InputError
// naming file and tensor.
void load_parameters(const CheckpointInfo& info, const ParameterStore& store);

// Restores a stage: parameters, buffers, replicas and the optimizer.
void load_checkpoint(const CheckpointInfo& info, Stage& stage);

// Restores what a method had kept; leaves it as it is if the checkpoint has nothing of that kind.
void load_method_state(const CheckpointInfo& info, std::span<const FlatState> method_state);

bool is_checkpoint(const std::filesystem::path& folder);
std::vector<std::filesystem::path> model_files(const CheckpointInfo& info);  // in the order of layers

// What a checkpoint depends on: with another value of these keys, as JSON, a run would not be the same run.
std::map<std::string, std::string> identity(const config::Settings& settings);

// Throws InputError, naming the key, if a checkpoint was made by another run than the one that settings and data
// describe.
void check_identity(const CheckpointInfo& info, const config::Settings& settings, const std::string& data_fingerprint);

// Throws InputError unless so many clusters, with so many updates in a step, can go on from a checkpoint: with a method
// whose pulls are drawn by lot, each has used as many samples as its draws left it.
void check_pulls(const CheckpointInfo& info, const config::Settings& settings, std::int64_t clusters,
                 std::int64_t updates);

}  // namespace rookery::train
