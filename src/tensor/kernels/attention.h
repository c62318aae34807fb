#pragma once

#include <cstdint>

namespace rookery::kernels {

// Queries, keys and values of `batch` samples. Token t of sample b of q starts at
// q + (b * query_length + t) * query_stride and holds its heads side by side, head h at h * head_width; k and v alike,
// with key_length. So q, k and v may be three parts of one packed projection (stride 3 · heads · head_width).
struct AttentionShape {
  std::int64_t batch, heads, query_length, key_length, head_width;
  std::int64_t query_stride, key_stride, value_stride;  // floats between consecutive tokens of one sample
  bool causal;                                          // query i sees keys j <= i; requires query_length == key_length
  const std::int64_t* key_lengths;                      // (batch), each >= 1: later keys are padding; or nullptr
  float scale;                                          // of the scores, > 0, usually 1 / sqrt(head_width)
};

// out = softmax(scale · q kᵀ + mask) · v for every head; the scores exist for a few queries at a time only, and the
// masked half of a causal one is never computed.
// out (batch, query_length, heads * head_width) contiguous; log_sum_exp (batch, heads, query_length) of the masked,
// scaled scores, which the backward pass rebuilds the probabilities from.
// Threads share the pairs (batch, head): the bits do not depend on their number.
void attention_forward(const AttentionShape& shape, const float* q, const float* k, const float* v, float* out,
                       float* log_sum_exp);

// Gradients from dout (laid out like out). dq, dk, dv have the strides of q, k, v; every element of every head is
// written (zero for keys that are padding), nothing is accumulated and nothing between the heads is touched.
void attention_backward(const AttentionShape& shape, const float* q, const float* k, const float* v, const float* out,
                        const float* log_sum_exp, const float* dout, float* dq, float* dk, float* dv);

}  // namespace rookery::kernels
