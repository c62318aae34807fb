#include "tensor/kernels/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "tensor/kernels/internal/scratch.h"
#include "tensor/kernels/internal/targets.h"
#include "tensor/kernels/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/kernels/attention.cc"
// clang-format off
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
#include "tensor/kernels/internal/tile-inl.h"
// clang-format on

// One head of one sample at a time. Its keys and values are first copied into panels (tile-inl.h), then the queries
// pass in strips of a few tiles: the scores of a strip, (rows, keys), are a product of register tiles, and are still in
// the nearest cache when the next step consumes them. No row ever needs rescaling, since all its keys are there. The
// gradients of keys and values are sums over queries, so they wait until a block of several strips is complete.
//
// Each query sees the keys [0, limit). Tiles cover kTileRows queries, so a row's probabilities are set to zero from its
// own limit to beyond the limit of any tile it is part of.

HWY_BEFORE_NAMESPACE();
namespace rookery::kernels::HWY_NAMESPACE {
namespace {

// Keys whose part of a panel of values stays in the first-level cache.
constexpr std::int64_t kKeyBlock = 256;

// One head: where its parts begin, and the sizes that all steps share.
struct Head {
  std::int64_t queries, keys, key_length, width;
  std::int64_t padded_width;  // to whole tiles
  std::int64_t score_stride;  // of a row of scores; never a multiple of a page, so that columns do not share a set
  std::int64_t strip;         // queries at a time
  std::int64_t block;         // queries between two updates of the gradients of keys and values: whole strips
  std::int64_t query_stride, key_stride, value_stride, out_stride;
  bool causal;
  float scale;

  std::int64_t limit(std::int64_t query) const { return causal ? std::min(query + 1, keys) : keys; }
  std::int64_t panels_size() const { return internal::round_up(keys, kTileColumns) * padded_width; }
};

constexpr std::int64_t kLargestStrip = 4 * kTileRows;

// Whole tiles, such that the scores of a strip take about 16 KiB, those of a block about 64 KiB: small enough for the
// caches, large enough to use a panel of keys more than once.
std::int64_t rows_for(std::int64_t floats, std::int64_t score_stride, std::int64_t least, std::int64_t most) {
  return std::clamp(floats / score_stride / kTileRows * kTileRows, least, most);
}

Head head_of(const AttentionShape& shape, std::int64_t sample) {
  Head head;
  head.queries = shape.query_length;
  head.key_length = shape.key_length;
  head.keys = shape.key_lengths ? std::min(shape.key_lengths[sample], shape.key_length) : shape.key_length;
  head.width = shape.head_width;
  head.padded_width = internal::round_up(shape.head_width, kTileColumns);
  head.score_stride = internal::round_up(head.keys, kTileColumns) + 16;
  head.strip = rows_for(4096, head.score_stride, 2 * kTileRows, kLargestStrip);
  head.block = internal::round_up(rows_for(16384, head.score_stride, head.strip, 4 * kLargestStrip), head.strip);
  head.query_stride = shape.query_stride;
  head.key_stride = shape.key_stride;
  head.value_stride = shape.value_stride;
  head.out_stride = shape.heads * shape.head_width;
  head.causal = shape.causal;
  head.scale = shape.scale;
  return head;
}

HWY_INLINE void copy_rows(std::int64_t rows, std::int64_t width, const float* from, std::int64_t from_stride, float* to,
                          std::int64_t to_stride, float scale) {
  const auto factor = hn::Set(kFloats, scale);
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* source = from + r * from_stride;
    float* target = to + r * to_stride;
    for_each_vector(0, width, [&](std::int64_t i, std::int64_t count) HWY_ATTR {
      store_some(hn::Mul(factor, load_some(source + i, count)), target + i, count);
    });
  }
}

// scores (rows, keys) of the queries first .. first + rows: left (rows, width) times the transposed keys or values, as
// row panels. Tiles that every one of their queries masks are left out.
void multiply_by_keys(const Head& head, std::int64_t first, std::int64_t rows, const float* left, const float* panels,
                      float* scores) {
  const std::int64_t limit = head.limit(first + rows - 1);
  for (std::int64_t j = 0; j < limit; j += kTileColumns) {
    const std::int64_t unmasked = head.causal ? std::max<std::int64_t>(0, j - first) : 0;
    for (std::int64_t i = unmasked / kTileRows * kTileRows; i < rows; i += kTileRows) {
      multiply_rows<LeftLayout::kRows>(std::min(kTileRows, rows - i), head.width,
                                       {left + i * head.width, head.width, 1}, panels + j * head.width,
                                       scores + i * head.score_stride + j, head.score_stride, false);
    }
  }
}

// result (rows, padded_width) = scores (rows, keys) · values or keys, as column panels.
void multiply_scores(const Head& head, std::int64_t first, std::int64_t rows, const float* scores, const float* panels,
                     float* result) {
  const std::int64_t limit = head.limit(first + rows - 1);
  for (std::int64_t k = 0; k < limit; k += kKeyBlock) {
    for (std::int64_t w = 0; w < head.padded_width; w += kTileColumns) {
      for (std::int64_t i = 0; i < rows; i += kTileRows) {
        const std::int64_t tile_rows = std::min(kTileRows, rows - i);
        const std::int64_t depth = std::min(kKeyBlock, head.limit(first + i + tile_rows - 1) - k);
        if (depth <= 0) continue;
        multiply_rows<LeftLayout::kRows>(tile_rows, depth, {scores + i * head.score_stride + k, head.score_stride, 1},
                                         panels + w * head.keys + k * kTileColumns, result + i * head.padded_width + w,
                                         head.padded_width, k > 0);
      }
    }
  }
}

// result (keys, padded_width) += scoresᵀ (keys, rows) · right (rows, width), as column panels of head.block rows.
void multiply_transposed_scores(const Head& head, std::int64_t first, std::int64_t rows, const float* scores,
                                const float* panels, float* result) {
  const std::int64_t limit = head.limit(first + rows - 1);
  for (std::int64_t j = 0; j < limit; j += kTileRows) {
    const std::int64_t masked = head.causal ? std::max<std::int64_t>(0, j - first) : 0;
    for (std::int64_t w = 0; w < head.padded_width; w += kTileColumns) {
      multiply_rows<LeftLayout::kColumns>(std::min(kTileRows, limit - j), rows - masked,
                                          {scores + masked * head.score_stride + j, 1, head.score_stride},
                                          panels + w * rows + masked * kTileColumns, result + j * head.padded_width + w,
                                          head.padded_width, true);
    }
  }
}

// Calls f(j, masked) for the vectors of a row that begin below `limit`; masked(v, otherwise) replaces the lanes of v at
// or beyond the limit.
template <typename F>
HWY_INLINE void for_each_unmasked(std::int64_t limit, const F& f) {
  std::int64_t j = 0;
  for (; j + kLanes <= limit; j += kLanes) f(j, [](Vector v, Vector) HWY_ATTR { return v; });
  if (j == limit) return;
  const auto first = hn::FirstN(kFloats, static_cast<std::size_t>(limit - j));
  f(j, [first](Vector v, Vector otherwise) HWY_ATTR { return hn::IfThenElse(first, v, otherwise); });
}

// Zeros in the vectors from `limit` on, as far as the tiles that include this row may read.
HWY_INLINE void clear_masked(float* row, std::int64_t limit) {
  for (std::int64_t j = internal::round_up(limit, kLanes); j < limit + kTileRows; j += kLanes) {
    hn::Store(hn::Zero(kFloats), kFloats, row + j);
  }
}

struct Softmax {
  float maximum, sum;
};

// row = exp(scale · row - maximum) on [0, limit), zeros above. Returns the scaled maximum, and the sum.
Softmax exponentiate(float* row, std::int64_t limit, float scale) {
  const auto lowest = hn::Set(kFloats, -std::numeric_limits<float>::infinity());
  Vector largest = lowest;
  for_each_unmasked(limit, [&](std::int64_t j, const auto& masked)
                               HWY_ATTR { largest = hn::Max(largest, masked(hn::Load(kFloats, row + j), lowest)); });
  const float maximum = max_of_lanes(largest) * scale;

  const auto zero = hn::Zero(kFloats);
  const auto factor = hn::Set(kFloats, scale * kLog2E), shift = hn::Set(kFloats, maximum * kLog2E);
  Vector sum = zero;
  for_each_unmasked(limit, [&](std::int64_t j, const auto& masked) HWY_ATTR {
    const auto e = masked(exp2(hn::MulSub(factor, hn::Load(kFloats, row + j), shift)), zero);
    hn::Store(e, kFloats, row + j);
    sum = hn::Add(sum, e);
  });
  clear_masked(row, limit);
  return {maximum, sum_of_lanes(sum)};
}

// p = exp(scale · p - log_sum_exp), dp = p · (dp - delta) on [0, limit), zeros above: from scores and the gradient of
// the probabilities to probabilities and the gradient of the scores.
void differentiate_softmax(float* p, float* dp, std::int64_t limit, float scale, float log_sum_exp, float delta) {
  const auto factor = hn::Set(kFloats, scale * kLog2E), shift = hn::Set(kFloats, log_sum_exp * kLog2E);
  const auto zero = hn::Zero(kFloats), d = hn::Set(kFloats, delta);
  for_each_unmasked(limit, [&](std::int64_t j, const auto& masked) HWY_ATTR {
    const auto e = masked(exp2(hn::MulSub(factor, hn::Load(kFloats, p + j), shift)), zero);
    const auto g = masked(hn::Mul(e, hn::Sub(hn::Load(kFloats, dp + j), d)), zero);
    hn::Store(e, kFloats, p + j);
    hn::Store(g, kFloats, dp + j);
  });
  clear_masked(p, limit);
  clear_masked(dp, limit);
}

float dot(std::int64_t n, const float* a, const float* b) {
  return sum_over(n, [&](std::int64_t i, std::int64_t count)
                         HWY_ATTR { return hn::Mul(load_some(a + i, count), load_some(b + i, count)); });
}

// Consecutive parts of a scratch buffer, each aligned.
class Parts {
 public:
  explicit Parts(float* memory) : memory_(memory) {}
  float* take(std::int64_t count) {
    float* part = memory_;
    memory_ += size(count);
    return part;
  }
  static std::int64_t size(std::int64_t count) { return internal::round_up(count, 32) + 32; }

 private:
  float* memory_;
};

void forward_head(const Head& head, const float* q, const float* k, const float* v, float* out, float* log_sum_exp) {
  thread_local internal::Scratch scratch;
  const std::int64_t panels = head.panels_size(), scores_size = head.strip * head.score_stride;
  const std::int64_t strip_size = head.strip * head.padded_width;
  Parts parts(scratch.reserve(2 * Parts::size(panels) + Parts::size(scores_size) + 2 * Parts::size(strip_size)));
  float *key_panels = parts.take(panels), *value_panels = parts.take(panels), *scores = parts.take(scores_size);
  float *queries = parts.take(strip_size), *result = parts.take(strip_size);

  pack_row_panels(head.keys, head.width, k, head.key_stride, key_panels);
  pack_column_panels(head.keys, head.width, v, head.value_stride, value_panels);
  for (std::int64_t first = 0; first < head.queries; first += head.strip) {
    const std::int64_t rows = std::min(head.strip, head.queries - first);
    copy_rows(rows, head.width, q + first * head.query_stride, head.query_stride, queries, head.width, 1.0f);
    multiply_by_keys(head, first, rows, queries, key_panels, scores);
    float inverse[kLargestStrip];
    for (std::int64_t i = 0; i < rows; ++i) {
      const Softmax softmax = exponentiate(scores + i * head.score_stride, head.limit(first + i), head.scale);
      inverse[i] = 1.0f / softmax.sum;
      log_sum_exp[first + i] = softmax.maximum + std::log(softmax.sum);
    }
    multiply_scores(head, first, rows, scores, value_panels, result);
    for (std::int64_t i = 0; i < rows; ++i) {
      copy_rows(1, head.width, result + i * head.padded_width, head.padded_width, out + (first + i) * head.out_stride,
                head.out_stride, inverse[i]);
    }
  }
}

// What the backward pass of a head keeps in scratch memory.
struct Gradients {
  float *key_rows, *key_columns, *value_rows;  // panels
  float *dk, *dv;                              // (keys, padded_width), sums so far
  float *p, *dp;                               // (block, score_stride): probabilities, and gradients of the scores
  float *queries, *query_panels, *douts, *dout_panels;  // a block of each, as rows and as column panels
  float* dq;                                            // (strip, padded_width)
  float* deltas;                                        // (block): the dot products of out and dout

  Gradients(const Head& head, internal::Scratch& scratch) {
    const std::int64_t panels = head.panels_size(), scores = head.block * head.score_stride;
    const std::int64_t rows = head.block * head.padded_width, sums = head.keys * head.padded_width;
    Parts parts(scratch.reserve(3 * Parts::size(panels) + 2 * Parts::size(sums) + 2 * Parts::size(scores) +
                                5 * Parts::size(rows) + Parts::size(head.block)));
    for (float** part : {&key_rows, &key_columns, &value_rows}) *part = parts.take(panels);
    for (float** part : {&dk, &dv}) *part = parts.take(sums);
    for (float** part : {&p, &dp}) *part = parts.take(scores);
    for (float** part : {&queries, &query_panels, &douts, &dout_panels, &dq}) *part = parts.take(rows);
    if (head.width == kTileColumns) {  // one panel: the rows are the panel
      query_panels = queries;
      dout_panels = douts;
    }
    deltas = parts.take(head.block);
    std::fill_n(dk, sums, 0.0f);
    std::fill_n(dv, sums, 0.0f);
  }
};

// p and dp of the queries first .. first + rows, the strip that begins at row `at` of its block; and their dq.
void backward_strip(const Head& head, const Gradients& g, std::int64_t first, std::int64_t rows, std::int64_t at,
                    const float* log_sum_exp, float* dq) {
  float *p = g.p + at * head.score_stride, *dp = g.dp + at * head.score_stride;
  multiply_by_keys(head, first, rows, g.queries + at * head.width, g.key_rows, p);
  multiply_by_keys(head, first, rows, g.douts + at * head.width, g.value_rows, dp);
  for (std::int64_t i = 0; i < rows; ++i) {
    differentiate_softmax(p + i * head.score_stride, dp + i * head.score_stride, head.limit(first + i), head.scale,
                          log_sum_exp[first + i], g.deltas[at + i]);
  }
  multiply_scores(head, first, rows, dp, g.key_columns, g.dq);
  copy_rows(rows, head.width, g.dq, head.padded_width, dq + first * head.query_stride, head.query_stride, head.scale);
}

void backward_head(const Head& head, const float* q, const float* k, const float* v, const float* out,
                   const float* log_sum_exp, const float* dout, float* dq, float* dk, float* dv) {
  thread_local internal::Scratch scratch;
  const Gradients g(head, scratch);
  pack_row_panels(head.keys, head.width, k, head.key_stride, g.key_rows);
  pack_column_panels(head.keys, head.width, k, head.key_stride, g.key_columns);
  pack_row_panels(head.keys, head.width, v, head.value_stride, g.value_rows);
  for (std::int64_t first = 0; first < head.queries; first += head.block) {
    const std::int64_t rows = std::min(head.block, head.queries - first);
    const float *block_q = q + first * head.query_stride, *block_dout = dout + first * head.out_stride;
    copy_rows(rows, head.width, block_q, head.query_stride, g.queries, head.width, 1.0f);
    copy_rows(rows, head.width, block_dout, head.out_stride, g.douts, head.width, 1.0f);
    for (std::int64_t i = 0; i < rows; ++i) {
      g.deltas[i] = dot(head.width, out + (first + i) * head.out_stride, g.douts + i * head.width);
    }
    if (g.query_panels != g.queries) {
      pack_column_panels(rows, head.width, g.queries, head.width, g.query_panels);
      pack_column_panels(rows, head.width, g.douts, head.width, g.dout_panels);
    }
    for (std::int64_t at = 0; at < rows; at += head.strip) {
      backward_strip(head, g, first + at, std::min(head.strip, rows - at), at, log_sum_exp, dq);
    }
    multiply_transposed_scores(head, first, rows, g.p, g.dout_panels, g.dv);
    multiply_transposed_scores(head, first, rows, g.dp, g.query_panels, g.dk);
  }
  copy_rows(head.keys, head.width, g.dk, head.padded_width, dk, head.key_stride, head.scale);
  copy_rows(head.keys, head.width, g.dv, head.padded_width, dv, head.value_stride, 1.0f);
  for (std::int64_t j = head.keys; j < head.key_length; ++j) {
    std::fill_n(dk + j * head.key_stride, head.width, 0.0f);
    std::fill_n(dv + j * head.value_stride, head.width, 0.0f);
  }
}

// Where head h of sample b begins.
struct Offsets {
  std::int64_t query, key, value, out, statistics;
};

Offsets offsets_of(const AttentionShape& shape, std::int64_t b, std::int64_t h) {
  const std::int64_t column = h * shape.head_width;
  return {b * shape.query_length * shape.query_stride + column, b * shape.key_length * shape.key_stride + column,
          b * shape.key_length * shape.value_stride + column,
          b * shape.query_length * shape.heads * shape.head_width + column, (b * shape.heads + h) * shape.query_length};
}

}  // namespace

// The pairs (batch, head) numbered begin .. end.
void attention_forward_heads(const AttentionShape& shape, const float* q, const float* k, const float* v, float* out,
                             float* log_sum_exp, std::int64_t begin, std::int64_t end) {
  for (std::int64_t i = begin; i < end; ++i) {
    const std::int64_t b = i / shape.heads;
    const Offsets at = offsets_of(shape, b, i % shape.heads);
    forward_head(head_of(shape, b), q + at.query, k + at.key, v + at.value, out + at.out, log_sum_exp + at.statistics);
  }
}

void attention_backward_heads(const AttentionShape& shape, const float* q, const float* k, const float* v,
                              const float* out, const float* log_sum_exp, const float* dout, float* dq, float* dk,
                              float* dv, std::int64_t begin, std::int64_t end) {
  for (std::int64_t i = begin; i < end; ++i) {
    const std::int64_t b = i / shape.heads;
    const Offsets at = offsets_of(shape, b, i % shape.heads);
    backward_head(head_of(shape, b), q + at.query, k + at.key, v + at.value, out + at.out, log_sum_exp + at.statistics,
                  dout + at.out, dq + at.query, dk + at.key, dv + at.value);
  }
}

}  // namespace rookery::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rookery::kernels {
HWY_EXPORT(attention_forward_heads);
HWY_EXPORT(attention_backward_heads);

namespace {
void check(const AttentionShape& shape) {
  ROOKERY_CHECK(!shape.causal || shape.query_length == shape.key_length, "query_length {}, key_length {}",
                shape.query_length, shape.key_length);
  ROOKERY_CHECK(shape.scale > 0, "scale {}", shape.scale);
  for (std::int64_t b = 0; shape.key_lengths && b < shape.batch; ++b) {
    ROOKERY_CHECK(shape.key_lengths[b] >= 1, "key_lengths[{}] = {}", b, shape.key_lengths[b]);
  }
}
}  // namespace

void attention_forward(const AttentionShape& shape, const float* q, const float* k, const float* v, float* out,
                       float* log_sum_exp) {
  check(shape);
  parallel_for(shape.batch * shape.heads, 1, [&](std::int64_t begin, std::int64_t end) {
    HWY_DYNAMIC_DISPATCH(attention_forward_heads)(shape, q, k, v, out, log_sum_exp, begin, end);
  });
}

void attention_backward(const AttentionShape& shape, const float* q, const float* k, const float* v, const float* out,
                        const float* log_sum_exp, const float* dout, float* dq, float* dk, float* dv) {
  check(shape);
  parallel_for(shape.batch * shape.heads, 1, [&](std::int64_t begin, std::int64_t end) {
    HWY_DYNAMIC_DISPATCH(attention_backward_heads)
    (shape, q, k, v, out, log_sum_exp, dout, dq, dk, dv, begin, end);
  });
}

}  // namespace rookery::kernels
#endif
