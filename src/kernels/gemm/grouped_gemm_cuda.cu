// A block takes 64 columns of a group and up to 128 of its rows, and walks along k: 64 elements of
// all of them at a time, the next ones on their way into shared memory meanwhile. Where a group has
// few rows, as in a decode, that is a stream of weights; where it has many, four warps multiply
// from shared memory, 32 columns and 64 rows each.
//
// A warp's operands lie as in a shrink (lora_cuda.cu): weights on the left, 8 neighbours of k in
// 16 bytes for each lane, which stand for columns 2t, 2t+1, 2t+8, 2t+9 of two instructions.

#include "kernels/gemm/grouped_gemm_cuda.h"

#include "kernels/cuda/elements.h"
#include "kernels/cuda/groups.h"
#include "kernels/gemm/stage_cuda.h"
#include "kernels/lora/shrink_tile_cuda.h"

namespace aril::kernels::ARIL_CUDA_TARGET {
namespace {

constexpr int kCols = 64;   // of a block
constexpr int kRows = 128;  // likewise, at most
constexpr int kDepth = 64;  // of a stage: elements of k
constexpr int kUnits = kStageUnits;
static_assert(kDepth == 8 * kStageUnits);
constexpr int kStages = 3;
// Of a stage in shared memory: rows of 64 elements, first the columns', then the rows'.
constexpr int kStageVectors = (kCols + kRows) * kUnits;
constexpr size_t kStagesBytes = sizeof(Vector16) * kStages * kStageVectors;
// Three times 72 KB, and what is counted of up to 640 groups, are what a multiprocessor of a Hopper
// has of shared memory.
constexpr int kBlocksPerMultiprocessor = 3;

// Rows of a thread's copies: 8 threads copy a row.
constexpr int kRowStep = kThreads / kUnits;
constexpr int kCopiedCols = kCols / kRowStep;
constexpr int kCopiedRows = kRows / kRowStep;

// Of a warp: two times 16 columns, and every other 8 rows.
constexpr int kColOperands = 2;
constexpr int kRowSlots = kRows / 8 / 2;
static_assert(kWarps == 2 * (kCols / (16 * kColOperands)));
using WarpSums = float[kColOperands][kRowSlots][4];

// Work of one block.
struct Tile {
  int group;
  int first_row;  // of y
  int num_rows;
  int first_col;
  int num_cols;
};

ARIL_DEVICE int RowsOf(const GroupedGemmArgs& args, int group) {
  return args.first_rows[group + 1] - args.first_rows[group];
}
ARIL_DEVICE int TilesOf(const GroupedGemmArgs& args, int group) {
  return (RowsOf(args, group) + kRows - 1) / kRows;
}

// A group's tiles are of as many rows each, but for whole eights: 129 rows are not one tile that is
// full, and another of one row.
ARIL_DEVICE Tile TileAt(const GroupedGemmArgs& args, const PieceOfGroup& rows, int first_col) {
  const int of_group = RowsOf(args, rows.group), tiles = TilesOf(args, rows.group);
  const int rows_each = ((of_group + tiles - 1) / tiles + 7) / 8 * 8;
  const int before = rows.piece * rows_each;
  const int num_rows = of_group - before < rows_each ? of_group - before : rows_each;
  const int num_cols = args.n - first_col;
  return {rows.group, args.first_rows[rows.group] + before, num_rows, first_col,
          num_cols < kCols ? num_cols : kCols};
}

// What a thread copies of a tile: one unit of some columns and rows.
struct Copier {
  const uint16_t* cols[kCopiedCols];  // null where there is none
  const uint16_t* rows[kCopiedRows];
  const uint16_t* w;  // an address, for copies that read nothing
  int num_rows;       // that are multiplied: whole eights
  int k;
  bool aligned;

  ARIL_DEVICE Copier(const GroupedGemmArgs& args, const Tile& tile)
      : w(reinterpret_cast<const uint16_t*>(args.w) +
          (static_cast<int64_t>(tile.group) * args.n + tile.first_col) * args.k) {
    const auto* x = reinterpret_cast<const uint16_t*>(args.x);
    const int first = ThreadIdx() / kUnits;
#pragma unroll
    for (int i = 0; i < kCopiedCols; ++i) {
      const int col = first + i * kRowStep;
      cols[i] = col < tile.num_cols ? w + static_cast<int64_t>(col) * args.k : nullptr;
    }
#pragma unroll
    for (int i = 0; i < kCopiedRows; ++i) {
      const int row = first + i * kRowStep, of_y = tile.first_row + row;
      rows[i] = nullptr;
      if (row < tile.num_rows) {
        rows[i] = x + (args.x_rows == nullptr ? of_y : args.x_rows[of_y]) * args.x_stride;
      }
    }
    num_rows = (tile.num_rows + 7) / 8 * 8;
    k = args.k;
    aligned =
        args.k % 8 == 0 && args.x_stride % 8 == 0 && IsAligned16(args.x) && IsAligned16(args.w);
  }

  ARIL_DEVICE void CopyUnit(Vector16* to, const uint16_t* row, int first) const {
    if (aligned) {
      const bool present = row != nullptr && first < k;
      CopyAsync16(to, present ? row + first : w, present);
    } else {
      *to = LoadEight(row, first, k);
    }
  }
  ARIL_DEVICE void Copy(int stage, Vector16* to) const {
    const int unit = ThreadIdx() % kUnits, first = ThreadIdx() / kUnits;
    const int from = stage * kDepth + unit * 8;
#pragma unroll
    for (int i = 0; i < kCopiedCols; ++i) {
      CopyUnit(to + VectorAt(first + i * kRowStep, unit), cols[i], from);
    }
#pragma unroll
    for (int i = 0; i < kCopiedRows; ++i) {
      const int row = first + i * kRowStep;
      if (row < num_rows) CopyUnit(to + VectorAt(kCols + row, unit), rows[i], from);
    }
  }
};

struct WarpPlace {
  int first_col = ThreadIdx() / kWarpSize / 2 * 16 * kColOperands;
  int first_slot = ThreadIdx() / kWarpSize % 2;

  ARIL_DEVICE int Row(int slot) const { return (first_slot + 2 * slot) * 8; }
};

template <typename T>
ARIL_DEVICE void MultiplyStage(const Vector16* stage, const WarpPlace& warp, int num_rows,
                               WarpSums& sums) {
  const int group = ThreadIdx() % kWarpSize / 4, t = ThreadIdx() % 4;
#pragma unroll
  for (int half = 0; half < kUnits / 4; ++half) {
    Vector16 w[kColOperands][2];
#pragma unroll
    for (int c = 0; c < kColOperands; ++c) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        w[c][i] = stage[VectorAt(warp.first_col + c * 16 + i * 8 + group, half * 4 + t)];
      }
    }
#pragma unroll
    for (int slot = 0; slot < kRowSlots; ++slot) {
      if (warp.Row(slot) >= num_rows) break;
      const Vector16 x = stage[VectorAt(kCols + warp.Row(slot) + group, half * 4 + t)];
#pragma unroll
      for (int c = 0; c < kColOperands; ++c) {
        TwoInstructions<T>(w[c][0], w[c][1], x, sums[c][slot]);
      }
    }
  }
}

ARIL_DEVICE void StoreResult(const GroupedGemmArgs& args, const Tile& tile, int row, int col,
                             float sum) {
  if (args.bias != nullptr) sum += args.bias[static_cast<int64_t>(tile.group) * args.n + col];
  args.y[(tile.first_row + row) * args.y_stride + col] = sum;
}

ARIL_DEVICE void Store(const GroupedGemmArgs& args, const Tile& tile, const WarpPlace& warp,
                       const WarpSums& sums) {
  const int lane = ThreadIdx() % kWarpSize;
#pragma unroll
  for (int slot = 0; slot < kRowSlots; ++slot) {
#pragma unroll
    for (int c = 0; c < kColOperands; ++c) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int row = warp.Row(slot) + lane % 4 * 2 + i % 2;
        const int col = warp.first_col + c * 16 + lane / 4 + i / 2 * 8;
        if (row < tile.num_rows && col < tile.num_cols) {
          StoreResult(args, tile, row, tile.first_col + col, sums[c][slot][i]);
        }
      }
    }
  }
}

template <typename T>
ARIL_DEVICE void MultiplyTile(T, const GroupedGemmArgs& args, const Tile& tile, Vector16* stages) {
  const Copier copier(args, tile);
  const WarpPlace warp;
  WarpSums sums = {};
  const int num_stages = (args.k + kDepth - 1) / kDepth;
#pragma unroll
  for (int stage = 0; stage < kStages - 1; ++stage) {
    if (stage < num_stages) copier.Copy(stage, stages + stage * kStageVectors);
    CommitCopies();
  }
  for (int stage = 0; stage < num_stages; ++stage) {
    WaitForCopies<kStages - 2>();
    SyncThreads();
    // Into the place of the stage before, which all have read.
    const int next = stage + kStages - 1;
    if (next < num_stages) copier.Copy(next, stages + next % kStages * kStageVectors);
    CommitCopies();
    MultiplyStage<T>(stages + stage % kStages * kStageVectors, warp, copier.num_rows, sums);
  }
  Store(args, tile, warp, sums);
  SyncThreads();
}

// In fp32 there is no matrix instruction that keeps all bits.
ARIL_DEVICE void MultiplyTile(F32, const GroupedGemmArgs& args, const Tile& tile, Vector16*) {
  const int col = tile.first_col + ThreadIdx() % kCols;
  if (col >= args.n) return;
  const auto* w = reinterpret_cast<const float*>(args.w) +
                  (static_cast<int64_t>(tile.group) * args.n + col) * args.k;
  for (int row = ThreadIdx() / kCols; row < tile.num_rows; row += kThreads / kCols) {
    const int of_y = tile.first_row + row;
    const auto* x = reinterpret_cast<const float*>(args.x) +
                    (args.x_rows == nullptr ? of_y : args.x_rows[of_y]) * args.x_stride;
    float sum = 0;
    for (int i = 0; i < args.k; ++i) sum = MultiplyAdd(w[i], x[i], sum);
    StoreResult(args, tile, row, col, sum);
  }
}

template <typename T>
ARIL_KERNEL(kThreads, kBlocksPerMultiprocessor)
GroupedGemmKernel(ARIL_PARAMETER GroupedGemmArgs args) {
  FollowPreviousKernel();
  auto* const stages = SharedMemory<Vector16>();
  auto* const scratch = reinterpret_cast<int*>(stages + kStages * kStageVectors);
  int* const ends = scratch + kThreads;
  CountPieces<kThreads>(
      args.groups, [&](int group) { return TilesOf(args, group); }, scratch, ends);
  const int col_tiles = (args.n + kCols - 1) / kCols;
  const int num_tiles = ends[args.groups - 1] * col_tiles;
  for (int i = BlockIdx(); i < num_tiles; i += GridDim()) {
    const PieceOfGroup rows = FindPiece(ends, args.groups, i / col_tiles);
    MultiplyTile(T{}, args, TileAt(args, rows, i % col_tiles * kCols), stages);
  }
}

}  // namespace

int GroupedGemm(const CudaContext& context, DType dtype, const GroupedGemmArgs& args) {
  const LaunchShape shape = {
      context.num_multiprocessors * kBlocksPerMultiprocessor, kThreads,
      kStagesBytes + sizeof(int) * static_cast<size_t>(kThreads + args.groups)};
  return LaunchFor(dtype, context, shape, GroupedGemmKernel<F32>, GroupedGemmKernel<Bf16>,
                   GroupedGemmKernel<F16>, args);
}

}  // namespace aril::kernels::ARIL_CUDA_TARGET
