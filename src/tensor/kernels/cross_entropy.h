#pragma once

#include <cstdint>

namespace rookery::kernels {

// Logits (rows, classes), rows row_stride floats apart; targets (rows), where a negative target means: ignore the row.

// The sum over the rows that are not ignored of -log softmax(logits)[target]. If `dlogits` is given (same layout; may
// be `logits`), writes scale · (softmax(logits) - onehot(target)) there, zeros for ignored rows. No softmax is stored.
// The bits do not depend on the number of threads. Requires: target < classes.
double softmax_cross_entropy(std::int64_t rows, std::int64_t classes, const float* logits, std::int64_t row_stride,
                             const std::int64_t* targets, float scale, float* dlogits);

// The number of rows whose first largest logit is at the target; ignored rows do not count.
std::int64_t count_correct(std::int64_t rows, std::int64_t classes, const float* logits, std::int64_t row_stride,
                           const std::int64_t* targets);

}  // namespace rookery::kernels
