#pragma once

#include <cstdint>
#include <filesystem>

#include "plan/profile.h"
#include "train/blueprint.h"

namespace rookery::train {

// What a run takes on this computer.
struct Profile {
  plan::ModelProfile layers;  // of a micro-batch
  double update = 0;          // seconds that an update takes for a parameter
  double byte_cost = 0;       // processor seconds for a byte that is sent or received
  double hop = 0;             // seconds that something small takes from one thread to another
  double jitter = 0;          // standard deviation of a step's time, as a share of it
};

// Measures it. Needs memory for one layer at a time.
Profile measure_profile(const Blueprint& blueprint);

// The same, but what was measured before in `folder`, for the same model, micro-batch and threads, is taken from there;
// what is measured is kept there, if it can be. Of sizes only those of activations are sure to be in it.
Profile known_profile(const Blueprint& blueprint, const std::filesystem::path& folder);

// The same, unless this computer is noticeably faster or slower than it was then: a look at the first layers tells.
// Processes of one computer do so one after another.
Profile current_profile(const Blueprint& blueprint, const std::filesystem::path& folder);

// A micro-batch as it comes in training: another one for each of the first numbers.
Batch typical_batch(const Blueprint& blueprint, std::uint64_t number);

// What layers take in bytes, and how many parameters they have: as above, with times that are a first guess.
plan::ModelProfile layer_sizes(const Blueprint& blueprint);

}  // namespace rookery::train
