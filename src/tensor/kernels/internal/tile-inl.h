// The register tile under the matrix product and attention. Compiled once per instruction set.
#if defined(ROOKERY_KERNELS_TILE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ROOKERY_KERNELS_TILE_INL_H
#undef ROOKERY_KERNELS_TILE_INL_H
#else
#define ROOKERY_KERNELS_TILE_INL_H
#endif

#include <cstdint>

#include <hwy/highway.h>

#include "tensor/kernels/internal/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace rookery::kernels::HWY_NAMESPACE {

// Twelve sums, two vectors of B and one of A fill the sixteen registers of AVX2.
inline constexpr std::int64_t kTileRows = 6;
inline constexpr std::int64_t kTileColumns = 2 * kLanes;

// The left operand of a tile: element (r, k) at data[r * row_stride + k * k_stride]. One of the strides is 1; packed
// means (1, kTileRows).
struct Left {
  const float* data;
  std::int64_t row_stride, k_stride;
};

enum class LeftLayout { kPacked, kRows, kColumns };

// c (Rows, kTileColumns) = or += a (Rows, depth) · b (depth, kTileColumns). b is contiguous and aligned.
template <int Rows, LeftLayout Layout>
HWY_INLINE void multiply_tile(std::int64_t depth, Left a, const float* HWY_RESTRICT b, float* HWY_RESTRICT c,
                              std::int64_t ldc, bool accumulate) {
  const std::int64_t row_stride = Layout == LeftLayout::kRows ? a.row_stride : 1;
  const std::int64_t k_stride = Layout == LeftLayout::kPacked ? kTileRows
                                : Layout == LeftLayout::kRows ? 1
                                                              : a.k_stride;
  Vector sum[Rows][2];
#pragma GCC unroll 8
  for (int r = 0; r < Rows; ++r) sum[r][0] = sum[r][1] = hn::Zero(kFloats);
  const float* HWY_RESTRICT left = a.data;
#pragma GCC unroll 4
  for (std::int64_t k = 0; k < depth; ++k) {
    const auto b0 = hn::Load(kFloats, b), b1 = hn::Load(kFloats, b + kLanes);
#pragma GCC unroll 8
    for (int r = 0; r < Rows; ++r) {
      const auto value = hn::Set(kFloats, left[r * row_stride]);
      sum[r][0] = hn::MulAdd(value, b0, sum[r][0]);
      sum[r][1] = hn::MulAdd(value, b1, sum[r][1]);
    }
    left += k_stride;
    b += kTileColumns;
  }
#pragma GCC unroll 8
  for (int r = 0; r < Rows; ++r) {
    float* row = c + r * ldc;
    if (accumulate) {
      sum[r][0] = hn::Add(sum[r][0], hn::LoadU(kFloats, row));
      sum[r][1] = hn::Add(sum[r][1], hn::LoadU(kFloats, row + kLanes));
    }
    hn::StoreU(sum[r][0], kFloats, row);
    hn::StoreU(sum[r][1], kFloats, row + kLanes);
  }
}

// The same for a number of rows known at run time. Requires: 0 < rows <= kTileRows.
template <LeftLayout Layout>
HWY_INLINE void multiply_rows(std::int64_t rows, std::int64_t depth, Left a, const float* b, float* c, std::int64_t ldc,
                              bool accumulate) {
  if (rows == kTileRows) return multiply_tile<kTileRows, Layout>(depth, a, b, c, ldc, accumulate);
  switch (rows) {
    case 1:
      return multiply_tile<1, Layout>(depth, a, b, c, ldc, accumulate);
    case 2:
      return multiply_tile<2, Layout>(depth, a, b, c, ldc, accumulate);
    case 3:
      return multiply_tile<3, Layout>(depth, a, b, c, ldc, accumulate);
    case 4:
      return multiply_tile<4, Layout>(depth, a, b, c, ldc, accumulate);
    case 5:
      return multiply_tile<5, Layout>(depth, a, b, c, ldc, accumulate);
  }
}

// to (columns / kTileColumns, rows, kTileColumns) = from (rows, columns), cut into panels of columns, zero padded. A
// few rows at a time, so that `from` is read along its rows.
inline void pack_column_panels(std::int64_t rows, std::int64_t columns, const float* from, std::int64_t from_stride,
                               float* to) {
  constexpr std::int64_t kRowsAtOnce = 8;
  const std::int64_t whole = columns / kTileColumns * kTileColumns;
  for (std::int64_t begin = 0; begin < rows; begin += kRowsAtOnce) {
    const std::int64_t end = begin + kRowsAtOnce < rows ? begin + kRowsAtOnce : rows;
    for (std::int64_t p = 0; p < whole; p += kTileColumns) {
      for (std::int64_t r = begin; r < end; ++r) {
        const float* source = from + r * from_stride + p;
        float* target = to + p * rows + r * kTileColumns;
        hn::Store(hn::LoadU(kFloats, source), kFloats, target);
        hn::Store(hn::LoadU(kFloats, source + kLanes), kFloats, target + kLanes);
      }
    }
  }
  for (std::int64_t r = 0; r < rows && whole < columns; ++r) {
    for (std::int64_t c = whole; c < whole + kTileColumns; ++c) {
      to[whole * rows + r * kTileColumns + c - whole] = c < columns ? from[r * from_stride + c] : 0.0f;
    }
  }
}

// to (columns / kTileColumns, depth, kTileColumns): the same of the transpose of from (columns, depth).
inline void pack_row_panels(std::int64_t columns, std::int64_t depth, const float* from, std::int64_t from_stride,
                            float* to) {
  for (std::int64_t p = 0; p < columns; p += kTileColumns, to += depth * kTileColumns) {
    const std::int64_t width = columns - p < kTileColumns ? columns - p : kTileColumns;
    transpose(width, depth, from + p * from_stride, from_stride, to, kTileColumns, kTileColumns);
  }
}

}  // namespace rookery::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
