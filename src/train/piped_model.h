#pragma once

#include <vector>

#include "base/subprocess.h"
#include "config/settings.h"
#include "tensor/batch.h"
#include "train/checkpoint.h"

namespace rookery::train {

// A trained model in several processes of this computer, each with the layers of one shard: nobody takes memory for the
// whole of it. For predictions.
class PipedModel {
 public:
  // Forks. Requires: no other thread runs; the settings are complete.
  PipedModel(const config::Settings& settings, const CheckpointInfo& checkpoint);

  // What comes out of the last layer. Throws Error, one sentence, if a process has failed.
  Tensors predict(const Tensors& inputs);

 private:
  std::vector<Subprocess> stages_;
};

}  // namespace rookery::train
