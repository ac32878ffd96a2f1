// Rows of weights in four bits.

#ifndef ARIL_KERNELS_GEMM_INT4_WEIGHTS_H_
#define ARIL_KERNELS_GEMM_INT4_WEIGHTS_H_

#include <array>
#include <cstdint>
#include <span>

#include "kernels/gemm/gemm_tile.h"
#include "tensor/dtype.h"
#include "tensor/int4_view.h"

namespace aril::kernels {

// Neighbours along K, each factor · (q − zero), times the scale of their row.
struct Int4Group {
  F16 factor;
  uint8_t zero = 0;
  std::array<uint8_t, kInt4GroupSize> q = {};  // below 16
};

// Rounds a row of finite values to `groups`, one for each kInt4GroupSize of them (the last filled
// up with what stands for 0), and gives its scale: a power of two by which the largest value lies
// high in what FP16 can hold, so that factors of groups 2^-20 beside it are still as exact as any.
// Of a group, the least and the largest value (or 0) are the ends of the range at first; turns of
// rounding and of least squares find better factors, for the better of two zero points.
float QuantizeToInt4(std::span<const float> row, std::span<Int4Group> groups);

// A row that has four bits already, exactly, and its scale: 1 for scales in FP16, else a power of
// two. `inputs`: the view's InputsByGroup, in whose order the row is. The view's groups are
// multiples of kInt4GroupSize, and it HasExactFactors.
float CopyInt4(const Int4View& from, int64_t row, std::span<const int32_t> inputs,
               std::span<Int4Group> groups);

// Whether FP16 holds all scales of each row, times a power of two of the row's own. They are then
// finite.
bool HasExactFactors(const Int4View& view);

}  // namespace aril::kernels

#endif  // ARIL_KERNELS_GEMM_INT4_WEIGHTS_H_
