// The LoRA operator on a device: what its kernels read, and their entry points. lora_plan.h makes
// the tables; lora.h has the contract.
//
// Arithmetic. A slice is 256 neighbours of `in`, a chunk four slices. Each slice of a dot product
// is one accumulator that the tensor cores walk in order; the slices of a chunk are added in order,
// and the chunks in order: V is a function of `in` only, for segments of any length. Segments that
// are split over blocks leave one partial V for each chunk, and the expand adds these up, in the
// same order. The expand multiplies V · scale, as three terms of BF16 whose sum is all of the fp32,
// with B: sixteen ranks at a time in a tensor core, from zero; these sums are added in order, with
// the rounding of fp32, and then to y: a function of the rank only.
//
// V. Per segment and target [partials, num_rows, stride]: partials is the number of chunks, or 1
// for a segment that is not split; the stride is the rank that the plan was made for, at least the
// adapter's.

#ifndef ARIL_KERNELS_LORA_LORA_CUDA_H_
#define ARIL_KERNELS_LORA_LORA_CUDA_H_

#include <stdint.h>

#include <cstddef>

#include "kernels/cuda/context.h"
#include "kernels/lora/matrix_run.h"
#include "tensor/dtype.h"

namespace aril::kernels {

inline constexpr int kLoraSlice = 256;
inline constexpr int kLoraChunk = 4 * kLoraSlice;
// Ranks of one matrix instruction.
inline constexpr int kLoraRankTile = 16;
// Projections of one call: q, k, v.
inline constexpr int kLoraMaxTargets = 3;
// Rows of an expand's item: of one matrix instruction. More would need more of V in shared memory,
// hence fewer blocks. B, which every item of a segment reads, lies in the L2 after the first, and
// up to rank 64 is no more than what y moves.
inline constexpr int kLoraExpandRows = 16;
// Of an expand, which keeps the V of its rows in shared memory: 33 KB.
inline constexpr int kLoraMaxExpandRank = 512;

// A LoraMatrix whose runs are in the device's memory, the first one here: most have no other.
struct LoraDeviceMatrix {
  const std::byte* first_data = nullptr;
  int64_t row_stride_bytes = 0;
  const MatrixRun* runs = nullptr;  // all of them; the first, too
  int32_t num_runs = 0;
  int32_t first_num_rows = 0;
  int32_t aligned16 = 0;  // whether every row begins at a multiple of 16 bytes
};

// LoraWeights on the device.
struct LoraDeviceWeights {
  LoraDeviceMatrix a;
  LoraDeviceMatrix b;
  LoraDeviceMatrix gain;  // no runs: none
  int32_t rank = 0;
  float scale = 0;
};

// Work of one block: some rows of a segment, up to 16 ranks of a target, some chunks of `in`.
struct LoraShrinkItem {
  const LoraDeviceWeights* weights = nullptr;  // plus the launch's weights_offset
  int64_t v_offset = 0;  // of the first row's rank 0 in the first chunk's partial
  int32_t v_stride = 0;
  int32_t first_row = 0;
  int32_t num_rows = 0;  // at most kLoraShrinkRows
  int32_t first_rank = 0;
  int32_t first_chunk = 0;
  int32_t num_chunks = 0;
};
inline constexpr int kLoraShrinkRows = 32;

// A segment that adds to the rows of an item.
struct LoraExpandEntry {
  const LoraDeviceWeights* weights = nullptr;  // plus the launch's weights_offset
  int64_t v_offset = 0;                        // of the item's first row in the first partial
  int64_t v_partial_stride = 0;
  int32_t v_stride = 0;
  int32_t num_partials = 0;
  float weight = 0;
};

// Work of one block: rows that the same segments cover, and columns of one target. Where B lies in
// blocks of columns, of one of them.
struct LoraExpandItem {
  int32_t first_entry = 0;  // entries are applied in order
  int32_t num_entries = 0;
  int32_t first_row = 0;
  int32_t num_rows = 0;  // at most kLoraExpandRows
  int32_t target = 0;
  int32_t first_col = 0;  // of the block
  int32_t num_cols = 0;
  int32_t block = 0;      // its weights lie so many behind the entries'
  int32_t block_col = 0;  // where it begins in the target
};

// What a step uploads: this, the shrink items, the expand items, the entries.
struct alignas(16) LoraTables {
  int32_t num_shrink_items = 0;
  int32_t num_expand_items = 0;
  int32_t max_rank = 0;             // of all entries
  int64_t expand_items_offset = 0;  // bytes from this
  int64_t entries_offset = 0;
};

struct LoraShrinkArgs {
  const LoraTables* tables = nullptr;
  int32_t weights_offset = 0;
  const std::byte* x = nullptr;  // [rows, in] in the dtype
  int64_t x_stride = 0;          // elements
  int32_t in = 0;
  float* v = nullptr;
};

struct LoraExpandTarget {
  int64_t first_col = 0;
  const float* bias = nullptr;
};

struct LoraExpandArgs {
  const LoraTables* tables = nullptr;
  int32_t weights_offset = 0;
  int32_t max_rank = 0;  // at least the tables': the launch's shared memory is for so much
  LoraExpandTarget targets[kLoraMaxTargets] = {};
  const float* v = nullptr;
  float* y = nullptr;
  int64_t y_stride = 0;
};

}  // namespace aril::kernels

// Both may be captured in a graph: they read the tables when they run, and trap where one has a
// larger rank than they were launched for. They return a CUDA error, or 0. The dtype is that of x
// and of the adapters: kF32, kBF16 or kF16.
#define ARIL_DECLARE_LORA_CUDA(target)                                    \
  namespace aril::kernels::target {                                       \
  int LoraShrink(const CudaContext&, DType dtype, const LoraShrinkArgs&); \
  int LoraExpand(const CudaContext&, DType dtype, const LoraExpandArgs&); \
  }

ARIL_DECLARE_LORA_CUDA(cuda)
ARIL_DECLARE_LORA_CUDA(emulated)

#endif  // ARIL_KERNELS_LORA_LORA_CUDA_H_
