// GatedDelta (gated_delta.h) on a device: three kernels, one after the other, in the order in which
// they stand in gated_delta_cuda.cu.

#ifndef ARIL_KERNELS_GATED_DELTA_GATED_DELTA_CUDA_H_
#define ARIL_KERNELS_GATED_DELTA_GATED_DELTA_CUDA_H_

#include <stdint.h>

#include <cstddef>

#include "kernels/cuda/context.h"
#include "kernels/gated_delta/delta_shape.h"
#include "tensor/dtype.h"

namespace aril::kernels {

// One sequence of a batch.
struct DeltaSequence {
  std::byte* const* state = nullptr;  // device addresses of its pages, in device memory
  int64_t first_position = 0;         // of its first row
  int32_t first_row = 0;
  int32_t num_rows = 0;  // 0: there is none
  int32_t repeats = 0;   // 1: its only row has been run before (AttentionSequence)
};

// One layer of a StateLayout, in floats and rows of the state.
struct DeltaLayer {
  int64_t first_matrix_row = 0;  // of the first head
  int64_t first_input_row = 0;   // of the convolution's input at position 0
  int64_t page_bytes = 0;
  int32_t rows_per_page = 0;
  int32_t rows_per_input = 0;
  int32_t num_key_heads = 0;
  int32_t num_value_heads = 0;
  int32_t key_dim = 0;
  int32_t value_dim = 0;
  int32_t conv_size = 0;
  int32_t num_channels = 0;
};

inline DeltaLayer DeltaLayerOf(const StateLayout& layout, int64_t layer) {
  const DeltaShape& shape = layout.shape;
  return {layout.MatrixRow(layer, 0),
          layout.InputRow(layer, 0),
          layout.page_bytes,
          static_cast<int32_t>(layout.rows_per_page()),
          static_cast<int32_t>(layout.rows_per_input()),
          static_cast<int32_t>(shape.num_key_heads),
          static_cast<int32_t>(shape.num_value_heads),
          static_cast<int32_t>(shape.key_dim),
          static_cast<int32_t>(shape.value_dim),
          static_cast<int32_t>(shape.conv_size),
          static_cast<int32_t>(shape.num_channels())};
}

// What the kernels leave for one another, fp32: of each row num_channels that are convolved, then
// value_size that is not normed yet, then a decay and a beta for each value head.
inline int64_t DeltaScratchFloats(const DeltaShape& shape, int64_t rows) {
  return rows * (shape.num_channels() + shape.value_size() + 2 * shape.num_value_heads);
}

struct GatedDeltaArgs {
  const float* in = nullptr;  // [rows, num_columns]
  int64_t in_stride = 0;
  const DeltaSequence* sequences = nullptr;  // [num_sequences]
  const int32_t* sequence_of_row = nullptr;  // [rows]; -1: of none
  int32_t rows = 0;
  int32_t num_sequences = 0;
  DeltaLayer layer;
  const float* conv = nullptr;  // as DeltaCall
  const float* decay = nullptr;
  const float* dt_bias = nullptr;
  const float* norm = nullptr;
  float norm_eps = 0;
  float* scratch = nullptr;  // [DeltaScratchFloats]
  std::byte* out = nullptr;  // [rows, value_size] in the dtype
  int64_t out_stride = 0;
};

}  // namespace aril::kernels

// Returns a CUDA error, or 0. The dtype, kF32, kBF16 or kF16, is out's.
#define ARIL_DECLARE_GATED_DELTA_CUDA(target)                             \
  namespace aril::kernels::target {                                       \
  int GatedDelta(const CudaContext&, DType dtype, const GatedDeltaArgs&); \
  }

ARIL_DECLARE_GATED_DELTA_CUDA(cuda)
ARIL_DECLARE_GATED_DELTA_CUDA(emulated)

#endif  // ARIL_KERNELS_GATED_DELTA_GATED_DELTA_CUDA_H_
