#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/units.h"

namespace rookery::plan {

// The layers [begin, end) of a model.
struct Layers {
  std::size_t begin = 0, end = 0;

  std::size_t size() const { return end - begin; }
  bool operator==(const Layers&) const = default;
};

// How a model is cut into stages: contiguous, from the first layer to the last.
using Cut = std::vector<Layers>;

// What one layer takes. Times and bytes are those of a micro-batch, on a peer of speed 1.
struct LayerProfile {
  std::uint64_t parameters = 0;  // that are used here first
  std::uint64_t replicas = 0;    // that an earlier layer brought: copied if a cut lies between the two
  double forward = 0;            // seconds
  double backward = 0;
  Bytes activations = 0;  // what backward needs of forward
  Bytes border = 0;       // what crosses a cut after this layer
  Bytes gradients = 0;    // what comes back
  double encoded = 1;     // the share of their floats that a codec leaves on the way

  // On the way. What comes back is as many floats as went there; the rest of the border is whole numbers.
  double sent_forward() const { return static_cast<double>(border - gradients) + sent_backward(); }
  double sent_backward() const { return encoded * static_cast<double>(gradients); }
};

using ModelProfile = std::vector<LayerProfile>;

// What one layer takes a particular peer for a micro-batch, in seconds.
struct LayerTimes {
  double forward = 0, backward = 0;

  bool operator==(const LayerTimes&) const = default;
};

}  // namespace rookery::plan
