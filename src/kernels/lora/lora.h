// The segmented LoRA operator (Punica's SGMV): many adapters of any ranks in one batch.
//
//   V[segment, rows] = x[rows] · Aᵀ                   shrink  [rows, rank]  fp32
//   y[rows] += weight · scale · V[segment, rows] · B  expand  [rows, out]   fp32
//
// DoRA (Liu et al. 2024) learns the length of each row of the adapted weight, too. There the expand
// ends with y = bias + gain ∘ (y − bias), so that y = bias + gain ∘ (W x + scale · V · B). A gain,
// the learned length over that of W + scale · BA, is near one and decides on all of y: two rows of
// the dtype, whose sum it is, give it twice the precision.
//
// A segment is consecutive rows that use one adapter. A call serves all projections that share the
// input x (q, k, v; gate, up): each is a target with its own slice of y's columns. Adapter matrices
// are "rank-major": row j of A is A[j, :] of length in, row j of B is Bᵀ[j, :] of length out, so
// that both are read along their rows. Rows come in runs, because a matrix may continue on another
// page of the pool; a row never straddles pages.
//
// Arithmetic (DESIGN: the arithmetic rule). Shrink: each dot product has one vector accumulator
// that walks `in` in order, then a fixed tree over its lanes: a function of `in` only. Expand:
// ranks are added to y in order, in fp32. Tiles over rows and ranks only share loads. Segments that
// overlap in rows are expanded, and their gains applied, in the order of the list.
//
// Cost: rows without a segment cost nothing; ranks are not padded.

#ifndef ARIL_KERNELS_LORA_LORA_H_
#define ARIL_KERNELS_LORA_LORA_H_

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/cpu/context.h"
#include "kernels/lora/matrix_run.h"
#include "kernels/matrix.h"

namespace aril::kernels {

// A [rank, width] or Bᵀ [rank, width] in the pool.
struct LoraMatrix {
  std::span<const MatrixRun> runs;  // in order, covering rows 0 … rank - 1
  int64_t row_stride_bytes = 0;
};

// The adapter's matrices for one target of a call; rank 0 where the adapter does not touch it. A
// shrink reads A, an expand B and the gain.
struct LoraWeights {
  int32_t rank = 0;
  float scale = 0;
  LoraMatrix a;
  LoraMatrix b;
  LoraMatrix gain = {};  // [2, width]: the gain is the sum of both rows; no runs: one everywhere
};

struct LoraSegment {
  int32_t first_row = 0;
  int32_t num_rows = 0;
  std::span<const LoraWeights> targets;  // one per target of the call
  float weight = 1;                      // times each target's scale
};

// Where a target's columns lie in y.
struct LoraTarget {
  int64_t first_col = 0;
  int64_t out = 0;
  const float* bias = nullptr;  // [out], what gains leave alone in y; null: zeros
};

// One call: the segments of a batch at one projection group.
struct LoraCall {
  std::span<const LoraSegment> segments;
  std::span<const LoraTarget> targets;
  DType dtype = DType::kF32;  // of the adapters' matrices and of x
};

// Number of floats that V takes: per segment, per target, [num_rows, rank], in that order.
int64_t LoraIntermediateSize(const LoraCall& call);

// v [LoraIntermediateSize] = the shrink of every segment and target. x [rows, in].
void LoraShrink(CpuContext& context, const ConstMatrix& x, const LoraCall& call,
                std::span<float> v);

// y [rows, …] += the expand of every segment and target, into each target's columns.
void LoraExpand(CpuContext& context, std::span<const float> v, const LoraCall& call,
                MatrixView<float> y);

// The oracle for both together, in double arithmetic.
void LoraRef(const ConstMatrix& x, const LoraCall& call, MatrixView<double> y);

}  // namespace aril::kernels

#endif  // ARIL_KERNELS_LORA_LORA_H_
