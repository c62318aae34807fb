#pragma once

#include <span>

#include "plan/profile.h"

namespace rookery::plan {

// A piece of the model that no cluster cuts. In every cluster one peer holds it; those are its ring.
struct Segment {
  Layers layers;
  std::vector<std::size_t> stages;  // which one holds it, by cluster

  bool operator==(const Segment&) const = default;
};

// The common refinement of all clusters' cuts, in layer order. Every peer that holds a stage holds whole segments, one
// or several. Throws InputError if a cut does not cover the model, or covers something twice.
std::vector<Segment> segments(std::span<const Cut> clusters, std::size_t layers);

// Throws InputError, which calls the cut `name`, if it is not a cut of a model with so many layers.
void check_cut(const Cut& cut, std::size_t layers, const std::string& name);

}  // namespace rookery::plan
