#include "tensor/kernels/gemm.h"

#include <algorithm>

#include "tensor/kernels/internal/scratch.h"
#include "tensor/kernels/internal/targets.h"
#include "tensor/kernels/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/kernels/gemm.cc"
// clang-format off
#include <hwy/foreach_target.h>
#include <hwy/cache_control.h>
#include <hwy/highway.h>
#include "tensor/kernels/internal/tile-inl.h"
// clang-format on

// Words. A tile is the kTileRows x kTileColumns part of C that one pass over k keeps in registers. A panel is what a
// tile multiplies, k outermost: kTileRows rows of A, or kTileColumns columns of B (packed, zero padded). A block of B
// is kBlockK x kBlockN and packed once; a block of A, kBlockM x kBlockK, lives in the second-level cache while the
// panels of B pass through the first. Each block of K adds to C, the last one applies the epilogue tile by tile.

HWY_BEFORE_NAMESPACE();
namespace rookery::kernels::HWY_NAMESPACE {
namespace {

constexpr std::int64_t kBlockK = 512;
constexpr std::int64_t kBlockM = 16 * kTileRows;
constexpr std::int64_t kBlockN = 768;
static_assert(kBlockN % kTileColumns == 0);

// Panels of A are spaced so that a store of eight lanes may spill over the end of one.
constexpr std::int64_t panel_size_a(std::int64_t depth) { return kTileRows * depth + 8; }

// What one call works on, with the place of its first row and column in the whole of C, for the epilogue.
struct Job {
  std::int64_t m, n, k;
  Matrix a, b;
  float* c;
  std::int64_t ldc;
  bool accumulate;
  Epilogue epilogue;
  std::int64_t epilogue_stride;
};

const float* at(const Matrix& matrix, std::int64_t i, std::int64_t j) {
  return matrix.data + i * matrix.row_stride + j * matrix.column_stride;
}

Matrix part_of(const Matrix& matrix, std::int64_t i, std::int64_t j) {
  return {at(matrix, i, j), matrix.row_stride, matrix.column_stride};
}

void multiply_panels(std::int64_t rows, std::int64_t depth, Left a, const float* b, float* c, std::int64_t ldc,
                     bool accumulate) {
  for (std::int64_t r = 0; r < rows; ++r) hwy::Prefetch(c + r * ldc + kTileColumns - 1);
  if (a.row_stride == 1 && a.k_stride == kTileRows) {
    multiply_rows<LeftLayout::kPacked>(rows, depth, a, b, c, ldc, accumulate);
  } else {
    multiply_rows<LeftLayout::kRows>(rows, depth, a, b, c, ldc, accumulate);
  }
}

// The epilogue on the tile of C at (i, j), just computed. What it consists of is known at compile time, so that its
// constants stay in registers.
template <Activation kActivation, bool kDerivative, bool kResidual>
void finish_tile(const Job& job, std::int64_t i, std::int64_t j, std::int64_t rows, std::int64_t columns) {
  const Epilogue& epilogue = job.epilogue;
  const auto zero = hn::Zero(kFloats), one = hn::Set(kFloats, 1.0f);
  for_each_vector(j, j + columns, [&](std::int64_t column, std::int64_t count) HWY_ATTR {
    const Vector bias = epilogue.bias ? load_some(epilogue.bias + column, count) : zero;
    for (std::int64_t r = i; r < i + rows; ++r) {
      float* c = job.c + r * job.ldc + column;
      const std::int64_t place = r * job.epilogue_stride + column;
      Vector y = hn::Add(load_some(c, count), bias), derivative = one;
      if constexpr (kActivation == Activation::kGelu) {
        gelu(y, y, derivative);
      } else if constexpr (kActivation == Activation::kRelu) {
        derivative = hn::IfThenElseZero(hn::Gt(y, zero), one);
        y = at_least(zero, y);
      }
      if constexpr (kDerivative) store_some(derivative, epilogue.derivative + place, count);
      if constexpr (kResidual) y = hn::Add(y, load_some(epilogue.residual + place, count));
      store_some(y, c, count);
    }
  });
}

using FinishTile = void (*)(const Job&, std::int64_t, std::int64_t, std::int64_t, std::int64_t);

template <Activation kActivation>
FinishTile finish_of(const Epilogue& e) {
  if (e.derivative) return e.residual ? finish_tile<kActivation, true, true> : finish_tile<kActivation, true, false>;
  return e.residual ? finish_tile<kActivation, false, true> : finish_tile<kActivation, false, false>;
}

// nullptr if there is nothing to do.
FinishTile finish_of(const Epilogue& e) {
  if (e.activation == Activation::kGelu) return finish_of<Activation::kGelu>(e);
  if (e.activation == Activation::kRelu) return finish_of<Activation::kRelu>(e);
  return e.bias || e.derivative || e.residual ? finish_of<Activation::kNone>(e) : nullptr;
}

// A tile that sticks out over the right edge of C is computed in a buffer.
void multiply_edge(std::int64_t rows, std::int64_t columns, std::int64_t depth, Left a, const float* b, float* c,
                   std::int64_t ldc, bool accumulate) {
  HWY_ALIGN float tile[kTileRows * kTileColumns] = {};
  if (accumulate) {
    for (std::int64_t r = 0; r < rows; ++r) std::copy_n(c + r * ldc, columns, tile + r * kTileColumns);
  }
  multiply_panels(rows, depth, a, b, tile, kTileColumns, accumulate);
  for (std::int64_t r = 0; r < rows; ++r) std::copy_n(tile + r * kTileColumns, columns, c + r * ldc);
}

// packed (panel, depth, kTileColumns) = B[k .. k + depth, j .. j + columns], zero padded to whole panels.
void pack_b(const Matrix& b, std::int64_t k, std::int64_t j, std::int64_t depth, std::int64_t columns, float* packed) {
  const float* from = at(b, k, j);
  if (b.row_stride == 1) return pack_row_panels(columns, depth, from, b.column_stride, packed);
  if (b.column_stride == 1) return pack_column_panels(depth, columns, from, b.row_stride, packed);
  for (std::int64_t p = 0; p < columns; p += kTileColumns) {
    for (std::int64_t r = 0; r < depth; ++r) {
      for (std::int64_t c = p; c < p + kTileColumns; ++c) {
        *packed++ = c < columns ? from[r * b.row_stride + c * b.column_stride] : 0.0f;
      }
    }
  }
}

// The next three: packed (panel, depth, kTileRows) = a (rows, depth), panels panel_size_a(depth) apart. The fast ones
// move eight rows at once; the two too many are overwritten by the next step of k, and spill over the end of the panel
// after the last. They return how many rows they packed: whole panels, as far as eight rows reach.
using Eight = hn::CappedTag<float, 8>;

// For a column-major A: along its columns, into all panels in turn.
std::int64_t pack_a_columns(const Matrix& a, std::int64_t rows, std::int64_t depth, float* packed) {
  const std::int64_t panels = rows >= 8 ? (rows - 8) / kTileRows + 1 : 0;
  for (std::int64_t k = 0; k < depth; ++k) {
    const float* from = at(a, 0, k);
    float* to = packed + k * kTileRows;
    for (std::int64_t p = 0; p < panels; ++p, from += kTileRows, to += panel_size_a(depth)) {
      hn::StoreU(hn::LoadU(Eight(), from), Eight(), to);
    }
  }
  return panels * kTileRows;
}

// For a row-major A, by transposes of eight rows and four columns. Requires: depth is a multiple of four.
std::int64_t pack_a_rows(const Matrix& a, std::int64_t rows, std::int64_t depth, float* packed) {
  std::int64_t r = 0;
  for (; r + 8 <= rows; r += kTileRows, packed += panel_size_a(depth)) {
    for (std::int64_t k = 0; k < depth; k += 4) {
      hn::Vec<Eight> v[4];
      load_transposed(Eight(), at(a, r, k), a.row_stride, v);
      for (std::int64_t c = 0; c < 4; ++c) hn::StoreU(v[c], Eight(), packed + (k + c) * kTileRows);
    }
  }
  return r;
}

void pack_a(const Matrix& a, std::int64_t rows, std::int64_t depth, float* packed) {
  std::int64_t r = 0;
  if (kLanes >= 8 && a.row_stride == 1) r = pack_a_columns(a, rows, depth, packed);
  if (kLanes >= 8 && a.column_stride == 1 && depth % 4 == 0) r = pack_a_rows(a, rows, depth, packed);
  for (; r < rows; ++r) {
    float* to = packed + r / kTileRows * panel_size_a(depth) + r % kTileRows;
    for (std::int64_t k = 0; k < depth; ++k) to[k * kTileRows] = *at(a, r, k);
  }
}

// Whether copying A pays. Broadcasts read A one float at a time, so it may stay where it is if its rows are contiguous
// and few columns of B reuse the copy; unless the rows of a tile fall into the same cache set.
bool should_pack_a(const Matrix& a, std::int64_t n) {
  if (a.column_stride != 1) return true;
  return n > 512 || a.row_stride % 512 == 0;
}

void multiply_block(const Job& job, std::int64_t j, std::int64_t columns, std::int64_t i, std::int64_t rows,
                    std::int64_t k, std::int64_t depth, const float* packed_a, const float* packed_b) {
  const bool accumulate = job.accumulate || k > 0;
  const FinishTile finish = k + depth == job.k ? finish_of(job.epilogue) : nullptr;
  for (std::int64_t jj = 0; jj < columns; jj += kTileColumns) {
    const std::int64_t tile_columns = std::min(kTileColumns, columns - jj);
    const float* b = packed_b + jj * depth;
    for (std::int64_t ii = 0; ii < rows; ii += kTileRows) {
      const std::int64_t tile_rows = std::min(kTileRows, rows - ii);
      const Left a = packed_a ? Left{packed_a + ii / kTileRows * panel_size_a(depth), 1, kTileRows}
                              : Left{at(job.a, i + ii, k), job.a.row_stride, 1};
      float* c = job.c + (i + ii) * job.ldc + j + jj;
      if (tile_columns == kTileColumns) {
        multiply_panels(tile_rows, depth, a, b, c, job.ldc, accumulate);
      } else {
        multiply_edge(tile_rows, tile_columns, depth, a, b, c, job.ldc, accumulate);
      }
      if (finish) finish(job, i + ii, j + jj, tile_rows, tile_columns);
    }
  }
}

void finish_without_product(const Job& job) {
  const FinishTile finish = finish_of(job.epilogue);
  for (std::int64_t i = 0; i < job.m; ++i) {
    if (!job.accumulate) std::fill_n(job.c + i * job.ldc, job.n, 0.0f);
    if (finish) finish(job, i, 0, 1, job.n);
  }
}

void run(const Job& job) {
  if (job.k == 0) return finish_without_product(job);
  thread_local internal::Scratch scratch_a, scratch_b;
  // K in equal blocks, so that none is much shorter than the others.
  const std::int64_t blocks = (job.k + kBlockK - 1) / kBlockK;
  const std::int64_t block_k = internal::round_up((job.k + blocks - 1) / blocks, 4);
  const std::int64_t block_n = std::min(kBlockN, internal::round_up(job.n, kTileColumns));
  float* packed_b = scratch_b.reserve(block_k * block_n);
  const std::int64_t size_a = kBlockM / kTileRows * panel_size_a(block_k);
  float* packed_a = should_pack_a(job.a, job.n) ? scratch_a.reserve(size_a) : nullptr;

  for (std::int64_t j = 0; j < job.n; j += block_n) {
    const std::int64_t columns = std::min(block_n, job.n - j);
    for (std::int64_t k = 0; k < job.k; k += block_k) {
      const std::int64_t depth = std::min(block_k, job.k - k);
      pack_b(job.b, k, j, depth, columns, packed_b);
      for (std::int64_t i = 0; i < job.m; i += kBlockM) {
        const std::int64_t rows = std::min(kBlockM, job.m - i);
        if (packed_a) pack_a(part_of(job.a, i, k), rows, depth, packed_a);
        multiply_block(job, j, columns, i, rows, k, depth, packed_a, packed_b);
      }
    }
  }
}

}  // namespace

void gemm_part(std::int64_t m, std::int64_t n, std::int64_t k, Matrix a, Matrix b, float* c, std::int64_t ldc,
               bool accumulate, const Epilogue& epilogue, std::int64_t epilogue_stride) {
  run({m, n, k, a, b, c, ldc, accumulate, epilogue, epilogue_stride});
}

}  // namespace rookery::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rookery::kernels {
HWY_EXPORT(gemm_part);

namespace {
Epilogue shifted(Epilogue epilogue, std::int64_t i, std::int64_t j, std::int64_t n) {
  if (epilogue.bias) epilogue.bias += j;
  if (epilogue.derivative) epilogue.derivative += i * n + j;
  if (epilogue.residual) epilogue.residual += i * n + j;
  return epilogue;
}
}  // namespace

void gemm(std::int64_t m, std::int64_t n, std::int64_t k, Matrix a, Matrix b, float* c, std::int64_t ldc,
          bool accumulate, const Epilogue& epilogue) {
  if (m <= 0 || n <= 0) return;
  // A part is worth a thread from about 20 µs of work. Ranges are multiples of a tile.
  constexpr std::int64_t kMinimum = 1 << 20;
  constexpr std::int64_t kStep = 48;
  const auto grain = [&](std::int64_t other) {
    return internal::round_up(kMinimum / std::max<std::int64_t>(1, other * k) + 1, kStep);
  };
  const auto part = [&](std::int64_t i, std::int64_t rows, std::int64_t j, std::int64_t columns) {
    const Matrix a_part{a.data + i * a.row_stride, a.row_stride, a.column_stride};
    const Matrix b_part{b.data + j * b.column_stride, b.row_stride, b.column_stride};
    HWY_DYNAMIC_DISPATCH(gemm_part)
    (rows, columns, k, a_part, b_part, c + i * ldc + j, ldc, accumulate, shifted(epilogue, i, j, n), n);
  };
  if (m >= n) {
    parallel_for(m, grain(n), [&](std::int64_t begin, std::int64_t end) { part(begin, end - begin, 0, n); });
  } else {
    parallel_for(n, grain(m), [&](std::int64_t begin, std::int64_t end) { part(0, m, begin, end - begin); });
  }
}

}  // namespace rookery::kernels
#endif
