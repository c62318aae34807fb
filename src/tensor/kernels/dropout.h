#pragma once

#include <cstdint>

namespace rookery::kernels {

// out[i] = x[i] / keep_probability where a hash of (key, i) falls below keep_probability, else 0. A pure function of
// (key, i): the backward pass is the same call on the gradient. out may be x. The same on every machine.
// Requires: 0 < keep_probability <= 1; n < 2^32.
void dropout(std::int64_t n, const float* x, float keep_probability, std::uint64_t key, float* out);

}  // namespace rookery::kernels
