#pragma once

#include <cstdint>

namespace rookery::kernels {

// out (n, width): out[i] = table[ids[i]] + positions[i % period]. table (vocabulary, width); positions (period, width)
// or nullptr for none. Requires: 0 <= ids[i] < vocabulary; period > 0 if there are positions.
void embedding_forward(std::int64_t n, const std::int64_t* ids, std::int64_t width, const float* table,
                       const float* positions, std::int64_t period, float* out);

// dtable[ids[i]] += dout[i] and dpositions[i % period] += dout[i], in the order of i; either may be nullptr. Threads
// share the columns, so the bits do not depend on their number.
void embedding_backward(std::int64_t n, const std::int64_t* ids, std::int64_t width, const float* dout, float* dtable,
                        float* dpositions, std::int64_t period);

}  // namespace rookery::kernels
