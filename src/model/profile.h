#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "base/units.h"
#include "model/model.h"

namespace rookery::model {

// What one layer costs on this machine.
struct LayerCost {
  std::string name;
  std::int64_t parameters = 0;         // tied ones count where they are used first
  std::int64_t tied = 0;               // those that an earlier layer has brought
  std::chrono::nanoseconds forward{};  // median of the repetitions
  std::chrono::nanoseconds backward{};
  std::chrono::nanoseconds deviation{};  // of both together, from one repetition to another
  Bytes output_bytes = 0;                // what would cross a cut after this layer, per sample
  Bytes gradient_bytes = 0;              // what would come back
  Bytes activation_bytes = 0;            // what backward keeps of forward, per sample
};

// The time that computing takes: processor time of this thread, if it is the only one that computes.
std::chrono::nanoseconds computing_time();

// Memory that others touch between two uses of a layer: what is measured after pass() finds the cache as a layer finds
// it in the course of a step, not as it has left it itself.
class Others {
 public:
  // So much memory, or as much as matters.
  explicit Others(Bytes bytes);
  void pass();

 private:
  std::vector<std::uint64_t> memory_;
};

// Measures every layer on `batch`, or the first `layers`, one after another, so that memory is needed for one layer at
// a time, parameters included. Without repetitions there is one forward pass, which says what layers take in bytes, and
// times are a guess. Where a single thread computes, it is its processor time that counts: others who measure at the
// same time on the same computer do not matter. Requires: parameters are unbound.
std::vector<LayerCost> profile(const Model& model, const Batch& batch, int repetitions,
                               std::size_t layers = std::numeric_limits<std::size_t>::max());

// A batch of random inputs of the right form.
Batch random_batch(Problem problem, const ModelOptions& options, std::int64_t samples, std::uint64_t seed);

}  // namespace rookery::model
