// What the per-instruction-set code of the gated delta rule is called with. Plain structs only (see
// cpu/simd.h).

#ifndef ARIL_KERNELS_GATED_DELTA_GATED_DELTA_TILE_H_
#define ARIL_KERNELS_GATED_DELTA_GATED_DELTA_TILE_H_

#include <stdint.h>

namespace aril::kernels {

inline constexpr int64_t kMaxDeltaKeyDim = 256;
inline constexpr int64_t kMaxDeltaConvSize = 16;
// Columns of a matrix that are computed together.
inline constexpr int64_t kDeltaColumns = 32;

// The convolution of a head's channels of one row, and what follows it.
struct DeltaConvHead {
  const float* const* inputs;  // [conv_size], each [num_channels]: the oldest first; null: zeros
  const float* conv;           // [conv_size, num_channels]
  int64_t conv_size;
  int64_t num_channels;
  int64_t first_channel;  // of the head
  int64_t size;           // its channels
  bool is_normed;         // as q and k are, before they are scaled
  float scale;            // of what is normed
  float* out;             // [size]
};

// Columns of a head's matrix, over the rows of a sequence. Strides in floats.
struct DeltaTile {
  float* const* state;  // [key_dim]: rows of the matrix, at the first column
  bool is_new;          // it is zero, whatever lies there
  bool repeats;         // it has what the row adds to it already
  int64_t num_columns;  // at most kDeltaColumns
  int64_t key_dim;      // at most kMaxDeltaKeyDim
  int64_t num_rows;
  const float* q;      // of the first row: [key_dim], and those of the next row behind it
  const float* k;      // [key_dim], too
  const float* v;      // of the first row: [num_columns]
  const float* decay;  // of the first row: 1, by which the matrix is multiplied
  const float* beta;   // 1
  int64_t gate_stride;
  float* out;            // of the first row: [num_columns]
  int64_t value_stride;  // of v and out, to the next row
};

// One head of one row.
struct DeltaNormRow {
  const float* x;  // [size]
  const float* z;  // [size]
  const float* weight;
  float eps;
  int64_t size;
  void* out;  // [size]
};

using DeltaConvFunction = void (*)(const DeltaConvHead&);
using DeltaTileFunction = void (*)(const DeltaTile&);
using DeltaNormFunction = void (*)(const DeltaNormRow&);

}  // namespace aril::kernels

#endif  // ARIL_KERNELS_GATED_DELTA_GATED_DELTA_TILE_H_
