#pragma once

#include <cstdint>
#include <vector>

#include "model/model.h"
#include "tensor/batch.h"
#include "train/stage.h"

namespace rookery::train {

struct LossReport {
  double loss = 0;      // mean over the loss terms
  double accuracy = 0;  // share of loss terms whose target was the likeliest
  std::int64_t loss_terms = 0;
};

// Batches for a stage that has all layers of a model. Lives on the compute thread.
class Learner {
 public:
  // The stage outlives this.
  explicit Learner(Stage& stage) : stage_(stage) {}

  // Sets the gradients to those of the batch's mean loss. The batch goes through in `micro_batches` slices; each term
  // weighs the same whatever the slice it falls in, so without batch norm the result does not depend on their number.
  // `key` draws dropout masks. Requires: 1 <= micro_batches <= batch.samples.
  LossReport accumulate_gradients(const Batch& batch, std::int64_t micro_batches, std::uint64_t key);

  // One optimizer step, with gradients clipped to norm `clip` (0: not at all). Returns the norm before clipping.
  double update(double lr, double clip);

  // The loss on a batch, without training.
  LossReport evaluate(const Batch& batch) const;

 private:
  Stage& stage_;
};

// Slice `i` of `n` along the samples. Sizes differ by at most one.
Batch slice(const Batch& batch, std::int64_t i, std::int64_t n);

// How many threads libtorch, the kernels and OpenBLAS use; 0: all cores.
void use_threads(std::int64_t threads);

// Computes something small, so that libtorch has the memory that it takes for itself, whatever is computed later.
void warm_up();

}  // namespace rookery::train
