#pragma once

#include <optional>

#include "base/units.h"
#include "train/profile.h"

namespace rookery::train {

// How much longer micro-batches and updates take in training than layer by layer: a few steps are taken with as many of
// the first layers as do not take long, one after the other as in training, so that each finds in the caches what it
// will find there. Whoever shares a computer should do so at the same time, because that takes from the caches, too.
//
// Takes half a second, or two steps of at most that much work each, and `memory` bytes at most. Nothing if not even the
// first layer can be tried so, or several threads compute: what those wait for each other cannot be told apart.
//
// On the compute thread; the model's parameters are not bound afterwards.
std::optional<double> try_out(const Blueprint& blueprint, const Profile& profile, Bytes memory);

}  // namespace rookery::train
