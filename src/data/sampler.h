#pragma once

#include <cstdint>

namespace rookery::data {

// Which sample comes at which position of a run. There is no state: the sample at a position is a pure function of
// (seed, position), so any peer can compute any batch, and nothing about the order needs to be saved or sent.
//
// An epoch visits every sample exactly once, in a pseudo-random order of its own. Endless data has no epochs: every
// position is a new sample.
class Sampler {
 public:
  // samples_per_epoch: Dataset::size(Split::kTrain); 0 means endless.
  Sampler(std::uint64_t seed, std::uint64_t samples_per_epoch);

  struct Place {
    std::uint64_t epoch = 0;
    std::uint64_t index = 0;

    bool operator==(const Place&) const = default;
  };
  Place at(std::uint64_t position) const;

 private:
  std::uint64_t seed_;
  std::uint64_t samples_per_epoch_;
};

}  // namespace rookery::data
