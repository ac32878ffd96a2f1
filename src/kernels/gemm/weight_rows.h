// Rows of the matrices that a checkpoint has, one below the other, in four bits, in bytes, in
// FP8 or in codes.

#ifndef ARIL_KERNELS_GEMM_WEIGHT_ROWS_H_
#define ARIL_KERNELS_GEMM_WEIGHT_ROWS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/gemm/int4_weights.h"
#include "kernels/gemm/weight_format.h"
#include "tensor/weight_view.h"

namespace aril::kernels {

struct WeightRow {
  const WeightView* part;
  int64_t row;
};

// Of `parts` [n_i, k], which must outlive the result.
std::vector<WeightRow> RowsOf(const std::vector<WeightView>& parts);

// A row in four bits, and its scale (int4_weights.h): as it is if it has them, else rounded.
// `inputs`: the view's InputsByGroup, or nothing.
float ToInt4(const WeightRow& row, std::span<const int32_t> inputs, std::span<Int4Group> groups);

// What a row's bytes are multiplied by: its scale if it has bytes; else the largest magnitude over
// 127, which is 0 for a row of zeros.
float Int8Scale(const WeightRow& row);
// Elements [first, first + count): the bytes that it has, or rounded to nearest, from −127 to 127.
void CopyAsInt8(const WeightRow& row, float scale, int64_t first, int64_t count, int8_t* to);

// Of FP8: what an input of a row is multiplied by, and those that share its scale.
float Float8Scale(const WeightRow& row, int64_t input);
// Whether inputs of a row have more than one, of any of `parts` (which AreFloat8).
bool HasSeveralScales(const std::vector<WeightView>& parts);
// Of codes: what an input of a row is multiplied by.
float Codebook4Scale(const WeightRow& row, int64_t input);
// What a row stands for in kInt4 (groups of 32), kInt8, kFloat8 or of codes: of each of `inputs`,
// or of k in order. For who compares products with their definition.
std::vector<double> ValuesIn(WeightFormat format, const WeightRow& row,
                             std::span<const int32_t> inputs);

}  // namespace aril::kernels

#endif  // ARIL_KERNELS_GEMM_WEIGHT_ROWS_H_
