#pragma once

#include "plan/formation.h"

namespace rookery::plan {

// How others deal out peers and layers, to compare with.

// Ravnest's genetic algorithm: so many clusters such that none lacks memory for the model, and Σ memory / bandwidth
// differs as little as can be from one to another. It knows nothing of compute, or of links between particular peers.
// A peer without a limit counts as having memory for the whole model. A population of 200, 500 generations.
Formation ravnest_formation(const Forming& forming, std::size_t clusters, std::uint64_t seed);

// Peers in their order, as many in each cluster, or almost.
Formation even_formation(std::size_t peers, std::size_t clusters);

// Layers in proportion to shares, at least one each.
Cut proportional_cut(std::size_t layers, std::span<const double> shares);

// Ravnest: its clusters, and layers in proportion to memory. Equal shares: even clusters, and as many layers for
// everybody. Both with the number of clusters that is predicted to be best for the job's goal; throw InputError if none fits.
Candidate ravnest(const Forming& forming, const MethodOptions& method, std::uint64_t seed);
Candidate equal_shares(const Forming& forming, const MethodOptions& method);

}  // namespace rookery::plan
