// Two ways through one matrix, for groups of few and of many rows.
//
// Few (a decode): a block has 32 outputs. Each of its warps takes a slice of k for all rows, and
// reads its weights once, straight into registers, some chunks ahead of what it multiplies: of all
// blocks that is what keeps memory busy. The slices' sums meet in shared memory.
//
// Many (a prefill): a block has 64 outputs and up to 128 rows, and walks along k, 64 elements of
// all of them at a time, the next ones on their way into shared memory meanwhile. A warp has 32
// outputs and 32 rows, and adds slice after slice itself.
//
// A warp's operands lie as in a shrink (lora_cuda.cu): weights on the left, and 8 neighbours of k
// in 16 bytes for each lane.
//
// Codes are looked up two at a time, in a table that each block makes in its shared memory.

#include "kernels/gemm/quantized_gemm_cuda.h"

#include "kernels/gemm/quantized_sums_cuda.h"
#include "kernels/gemm/quantized_tile_cuda.h"
#include "kernels/gemm/stage_cuda.h"

namespace aril::kernels::ARIL_CUDA_TARGET {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarpSize;
// Of 128 registers for each thread, a multiprocessor has enough for two blocks.
constexpr int kBlocksPerMultiprocessor = 2;

static_assert(kSlices == kWarps);

static_assert(kFewRows == 8 * kMaxSlots);
// What a warp has on its way of W: with one slot there are registers for more.
template <int kSlots>
constexpr int kChunksAhead = kSlots == 1 ? 8 : 2;

// Of a block, in the way of many rows.
constexpr int kRowWarps = kWarps / kManyTiles;
constexpr int kStageChunks = 2;
constexpr int kStageDepth = kStageChunks * kQuantizedDepth;
constexpr int kUnits = kStageUnits;
static_assert(kStageDepth == 8 * kStageUnits);
// A table takes the place of a third stage.
template <typename W>
constexpr int kStagesOf = 3;
template <>
constexpr int kStagesOf<Codebook4Chunk> = 2;
constexpr int kRowStep = kThreads / kUnits;  // rows of a thread's copies: 8 threads copy a row
constexpr int kCopiedRows = kManyRows / kRowStep;

// --- Few rows ---

// A warp's slice, of the only tile of W.
template <typename T, typename W, int kSlots>
ARIL_DEVICE void MultiplySlice(const QuantizedGemmArgs& args, const QuantizedTile& tile, int slice,
                               SliceSums<W, kSlots>& sums) {
  const QuantizedInput<uint16_t> input(args, tile);
  const int lane = ThreadIdx() % kWarpSize;
  const auto* const chunks = reinterpret_cast<const Vector16*>(tile.w);
  const int begin = FirstChunk(args.layout, slice), end = FirstChunk(args.layout, slice + 1);
  const int num_slots = (tile.num_rows + 7) / 8;
  if (begin == end) return;
  const uint16_t* rows[kSlots];
#pragma unroll
  for (int slot = 0; slot < kSlots; ++slot) rows[slot] = input.Row(slot * 8 + lane / 4);
  sums.Begin(begin);
  constexpr int kAhead = kChunksAhead<kSlots>;
  for (int first = begin; first < end; first += kAhead) {
    W w[kAhead] = {};
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      if (first + i < end) w[i] = FromGlobal<W>(chunks + (first + i) * kChunkVectors<W>);
    }
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const int chunk = first + i;
      if (chunk >= end) break;
      const int at = chunk * kQuantizedDepth + lane % 4 * 8;
      MultiplyChunk<T>(
          w[i], [&](int slot) { return input.Eight(rows[slot], at); }, num_slots, sums);
      sums.EndChunk(chunk, chunk + 1 == end);
    }
  }
}

// `slices` [kSlices, kSumsOfLane, kWarpSize].
template <typename T, typename W, int kSlots>
ARIL_DEVICE void MultiplyFew(const QuantizedGemmArgs& args, const QuantizedTile& tile,
                             const uint32_t* table, float* slices) {
  constexpr int kSums = kSumsOfLane<kSlots>;
  const int warp = ThreadIdx() / kWarpSize, lane = ThreadIdx() % kWarpSize;
  SliceSums<W, kSlots> sums(args.layout, tile.w, table);
  MultiplySlice<T>(args, tile, warp, sums);
#pragma unroll
  for (int i = 0; i < kSums; ++i) {
    slices[(warp * kSums + i) * kWarpSize + lane] = SumAt(sums.slice, i);
  }
  SyncThreads();
  for (int i = warp; i < kSums; i += kWarps) {
    float sum = 0;
#pragma unroll
    for (int slice = 0; slice < kSlices; ++slice) {
      sum += slices[(slice * kSums + i) * kWarpSize + lane];
    }
    StoreResult(args, tile, i / 4 % kSlots * 8 + RowInSlot(i % 4), ColOf(i / 4 / kSlots, i % 4),
                sum);
  }
  SyncThreads();
}

// --- Many rows ---

// Of a stage in shared memory: x, rows of 64 elements, then chunks of W, those of a tile together.
template <typename W>
constexpr int kStageVectors = kManyRows* kUnits + kManyTiles* kStageChunks* kChunkVectors<W>;

// What a thread copies of a tile: one unit of some rows, and some vectors of W.
template <typename W>
struct Copier {
  QuantizedInput<uint16_t> input;
  int rows[kCopiedRows];  // of x, or -1
  const QuantizedLayout& layout;
  const Vector16* w;
  int tiles;
  int num_rows;  // that are multiplied: whole eights

  ARIL_DEVICE Copier(const QuantizedGemmArgs& args, const QuantizedTile& tile)
      : input(args, tile),
        layout(args.layout),
        w(reinterpret_cast<const Vector16*>(tile.w)),
        tiles((tile.num_cols + kQuantizedCols - 1) / kQuantizedCols),
        num_rows((tile.num_rows + 7) / 8 * 8) {
#pragma unroll
    for (int i = 0; i < kCopiedRows; ++i)
      rows[i] = input.NumberOf(ThreadIdx() / kUnits + i * kRowStep);
  }

  ARIL_DEVICE void Copy(int stage, Vector16* to) const {
    const int unit = ThreadIdx() % kUnits;
    const int from = stage * kStageDepth + unit * 8;
#pragma unroll
    for (int i = 0; i < kCopiedRows; ++i) {
      const int row = ThreadIdx() / kUnits + i * kRowStep;
      if (row >= num_rows) break;
      Vector16* const place = to + VectorAt(row, unit);
      if (input.aligned && layout.k % 8 == 0) {
        const bool present = rows[i] >= 0 && from < layout.k;
        CopyAsync16(place, present ? static_cast<const void*>(input.At(rows[i]) + from) : w,
                    present);
      } else {
        *place = input.Eight(input.At(rows[i]), from);
      }
    }
    CopyWeights(stage, to + kManyRows * kUnits);
  }
  ARIL_DEVICE void CopyWeights(int stage, Vector16* to) const {
    constexpr int kOfTile = kStageChunks * kChunkVectors<W>;
    const int first = stage * kOfTile;
#pragma unroll
    for (int i = ThreadIdx(); i < kManyTiles * kOfTile; i += kThreads) {
      const int tile = i / kOfTile, vector = first + i % kOfTile;
      const bool present = tile < tiles && vector < layout.chunks * kChunkVectors<W>;
      const auto* const from = reinterpret_cast<const Vector16*>(
          reinterpret_cast<const std::byte*>(w) + static_cast<int64_t>(tile) * layout.tile_bytes);
      CopyAsync16(to + i, present ? from + vector : w, present);
    }
  }
};

constexpr int kManySums = kSumsOfLane<kMaxSlots>;

// A warp's sums of all slices. `total` [kManySums], kThreads apart, is this thread's own.
template <typename T, typename W>
struct Walk {
  SliceSums<W, kMaxSlots> sums;
  const QuantizedLayout& layout;
  float* total;
  int slice = 0, slice_end = 0;

  ARIL_DEVICE Walk(const QuantizedLayout& of, const std::byte* tile, const uint32_t* table,
                   float* to)
      : sums(of, tile, table), layout(of), total(to) {
#pragma unroll
    for (int i = 0; i < kManySums; ++i) total[i * kThreads] = 0;
    sums.Begin(0);
    FindSlice(0);
  }
  // That of a chunk, which is the first one of it.
  ARIL_DEVICE void FindSlice(int chunk) {
    do slice_end = FirstChunk(layout, ++slice);
    while (slice_end <= chunk && slice < kSlices);
  }
  template <typename XOf>
  ARIL_DEVICE void Multiply(int chunk, const W& w, const XOf& x_of, int num_slots) {
    MultiplyChunk<T>(w, x_of, num_slots, sums);
    const bool ends_slice = chunk + 1 == slice_end;
    sums.EndChunk(chunk, ends_slice);
    if (!ends_slice) return;
#pragma unroll
    for (int i = 0; i < kManySums; ++i) {
      float& sum = SumAt(sums.slice, i);
      total[i * kThreads] += sum;
      sum = 0;
    }
    FindSlice(chunk + 1);
  }
};

// `stages`: kStagesOf of them, `totals` [kManySums, kThreads].
template <typename T, typename W>
ARIL_DEVICE void MultiplyMany(const QuantizedGemmArgs& args, const QuantizedTile& tile,
                              const uint32_t* table, Vector16* stages, float* totals) {
  constexpr int kStages = kStagesOf<W>;
  const Copier<W> copier(args, tile);
  const int lane = ThreadIdx() % kWarpSize;
  const int of_block = ThreadIdx() / kWarpSize / kRowWarps;
  const int first_slot = ThreadIdx() / kWarpSize % kRowWarps;
  const bool has_cols = of_block < copier.tiles;
  // A warp's slots are every fourth one of the tile's.
  const int slots_left = copier.num_rows / 8 - first_slot;
  const int num_slots = slots_left <= 0 ? 0 : (slots_left + kRowWarps - 1) / kRowWarps;
  const auto row_of = [&](int slot) { return (first_slot + slot * kRowWarps) * 8; };
  const std::byte* const w =
      tile.w + static_cast<int64_t>(has_cols ? of_block : 0) * args.layout.tile_bytes;
  Walk<T, W> walk(args.layout, w, table, totals + ThreadIdx());
  const int num_stages = (args.layout.chunks + kStageChunks - 1) / kStageChunks;
#pragma unroll
  for (int stage = 0; stage < kStages - 1; ++stage) {
    if (stage < num_stages) copier.Copy(stage, stages + stage * kStageVectors<W>);
    CommitCopies();
  }
  for (int stage = 0; stage < num_stages; ++stage) {
    WaitForCopies<kStages - 2>();
    SyncThreads();
    // Into the place of the stage before, which all have read.
    const int next = stage + kStages - 1;
    if (next < num_stages) copier.Copy(next, stages + next % kStages * kStageVectors<W>);
    CommitCopies();
    if (!has_cols || num_slots == 0) continue;
    const Vector16* const x = stages + stage % kStages * kStageVectors<W>;
    const Vector16* const chunks =
        x + kManyRows * kUnits + of_block * kStageChunks * kChunkVectors<W>;
#pragma unroll
    for (int i = 0; i < kStageChunks; ++i) {
      const int chunk = stage * kStageChunks + i;
      if (chunk >= args.layout.chunks) break;
      walk.Multiply(
          chunk, FromShared<W>(chunks + i * kChunkVectors<W>),
          [&](int slot) { return x[VectorAt(row_of(slot) + lane / 4, i * 4 + lane % 4)]; },
          num_slots);
    }
  }
  WaitForCopies<0>();
#pragma unroll
  for (int i = 0; i < kManySums; ++i) {
    const int row = row_of(i / 4 % kMaxSlots) + RowInSlot(i % 4);
    const int col = of_block * kQuantizedCols + ColOf(i / 4 / kMaxSlots, i % 4);
    StoreResult(args, tile, row, col, totals[i * kThreads + ThreadIdx()]);
  }
  SyncThreads();
}

// --- fp32, where no matrix instruction keeps all bits ---

// A byte of a level, of column `col` of a tile of W.
ARIL_DEVICE uint32_t ByteAt(const std::byte* w, int col, int k) {
  const int chunk = k / kQuantizedDepth, in_chunk = k % kQuantizedDepth;
  const int lane = col % 8 * 4 + in_chunk / 8, of_lane = col / 8, i = in_chunk % 8;
  const auto* const half = w + (static_cast<int64_t>(chunk) * 2 + of_lane / 2) * kWarpSize * 16;
  return static_cast<uint32_t>(half[lane * 16 + of_lane % 2 * 8 + i]);
}

// A level less its zero point, or what a code stands for.
ARIL_DEVICE float LevelAt(const QuantizedLayout& layout, const std::byte* w, int col, int k) {
  if (layout.format == WeightFormat::kInt8) {
    return static_cast<float>(static_cast<int>(ByteAt(w, col, k)) - 128);
  }
  if (layout.format == WeightFormat::kFloat8) {
    // In the places of a float's bits, where the exponent's bias is 127 for 7.
    const uint32_t byte = ByteAt(w, col, k);
    return BitCast<float>((byte & 0x80) << 24 | (byte & 0x7F) << 20) * 0x1p120f;
  }
  const int chunk = k / kQuantizedDepth, in_chunk = k % kQuantizedDepth;
  const int lane = col % 8 * 4 + in_chunk / 8, of_lane = col / 8, i = in_chunk % 8;
  const auto* const vector =
      reinterpret_cast<const Vector16*>(w) + static_cast<int64_t>(chunk) * kWarpSize + lane;
  const uint32_t word = vector->words[of_lane];
  if (layout.format == WeightFormat::kCodebook4) return layout.codebook[word >> 4 * i & 15];
  const uint32_t level = word >> (i / 2 * 4 + i % 2 * 16) & 15;
  const int index = chunk / layout.group_chunks * kQuantizedCols + col % 8 * 4 + of_lane;
  const int zero = static_cast<int>(w[layout.zeros_offset + index]);
  return static_cast<float>(static_cast<int>(level) - zero);
}

ARIL_DEVICE float FactorAt(const QuantizedLayout& layout, const std::byte* w, int col, int chunk) {
  if (layout.format == WeightFormat::kInt8) return 1;
  const int index = chunk / layout.group_chunks * kQuantizedCols + col % 8 * 4 + col / 8;
  const std::byte* const factors = w + layout.factors_offset;
  if (layout.format == WeightFormat::kInt4) {
    return F16ToFloat(reinterpret_cast<const uint16_t*>(factors)[index]);
  }
  return reinterpret_cast<const float*>(factors)[index];
}

ARIL_DEVICE float SumInFloat(const QuantizedGemmArgs& args, const QuantizedInput<float>& input,
                             const float* row, const std::byte* w, int col) {
  const QuantizedLayout& layout = args.layout;
  const bool has_groups = layout.format != WeightFormat::kInt8;
  float total = 0;
  for (int slice = 0; slice < kSlices; ++slice) {
    float of_slice = 0, of_group = 0;
    const int end = FirstChunk(layout, slice + 1);
    for (int chunk = FirstChunk(layout, slice); chunk < end; ++chunk) {
      const int first = chunk * kQuantizedDepth;
      for (int k = first; k < first + kQuantizedDepth && k < layout.k; ++k) {
        of_group = MultiplyAdd(LevelAt(layout, w, col, k), input.Of(row, k), of_group);
      }
      if (chunk + 1 == end || (has_groups && (chunk + 1) % layout.group_chunks == 0)) {
        of_slice = MultiplyAdd(FactorAt(layout, w, col, chunk), of_group, of_slice);
        of_group = 0;
      }
    }
    total += of_slice;
  }
  return total;
}

// --- The kernel ---

ARIL_DEVICE void MultiplyTile(F32, const QuantizedGemmArgs& args, const QuantizedTile& tile,
                              std::byte*) {
  const QuantizedInput<float> input(args, tile);
  for (int i = ThreadIdx(); i < tile.num_rows * tile.num_cols; i += kThreads) {
    const int row = i / tile.num_cols, col = i % tile.num_cols;
    const std::byte* const w =
        tile.w + static_cast<int64_t>(col / kQuantizedCols) * args.layout.tile_bytes;
    StoreResult(args, tile, row, col,
                SumInFloat(args, input, input.Row(row), w, col % kQuantizedCols));
  }
}

// Sums of slices, or of threads, are as many.
constexpr size_t kSumsBytes = sizeof(float) * kManySums * kThreads;
static_assert(kSlices * kWarpSize == kThreads);
// Behind them a table, if there is one, and then stages.
template <typename W>
constexpr size_t kTableBytes = 0;
template <>
constexpr size_t kTableBytes<Codebook4Chunk> = sizeof(uint32_t) * kTableWords;
template <typename W>
constexpr size_t kStagesBytes = sizeof(Vector16) * kStagesOf<W>* kStageVectors<W>;

template <typename T, typename W>
ARIL_DEVICE void MultiplyWith(const QuantizedGemmArgs& args, const QuantizedTile& tile,
                              std::byte* shared) {
  auto* const floats = reinterpret_cast<float*>(shared);
  const auto* const table = reinterpret_cast<const uint32_t*>(shared + kSumsBytes);
  const int rows = RowsOf(args, tile.group);
  TrapUnless(rows <= args.rows, "a group of more rows than the launch has memory for");
  if (rows <= 8) {
    MultiplyFew<T, W, 1>(args, tile, table, floats);
  } else if (rows <= kFewRows) {
    MultiplyFew<T, W, kMaxSlots>(args, tile, table, floats);
  } else {
    auto* const stages = reinterpret_cast<Vector16*>(shared + kSumsBytes + kTableBytes<W>);
    MultiplyMany<T, W>(args, tile, table, stages, floats);
  }
}

template <typename T>
ARIL_DEVICE void MultiplyTile(T, const QuantizedGemmArgs& args, const QuantizedTile& tile,
                              std::byte* shared) {
  if (args.layout.format == WeightFormat::kInt4) {
    MultiplyWith<T, Int4Chunk>(args, tile, shared);
  } else if (args.layout.format == WeightFormat::kFloat8) {
    MultiplyWith<T, Float8Chunk>(args, tile, shared);
  } else if (args.layout.format == WeightFormat::kCodebook4) {
    MultiplyWith<T, Codebook4Chunk>(args, tile, shared);
  } else {
    MultiplyWith<T, Int8Chunk>(args, tile, shared);
  }
}

ARIL_DEVICE void Prepare(F32, const QuantizedLayout&, std::byte*) {}
template <typename T>
ARIL_DEVICE void Prepare(T, const QuantizedLayout& layout, std::byte* shared) {
  if (layout.format != WeightFormat::kCodebook4) return;
  FillTable<T>(layout, ThreadIdx(), kThreads, reinterpret_cast<uint32_t*>(shared + kSumsBytes));
}

template <typename T>
ARIL_KERNEL(kThreads, kBlocksPerMultiprocessor)
QuantizedGemmKernel(ARIL_PARAMETER QuantizedGemmArgs args) {
  auto* const scratch = SharedMemory<int>();
  int* const ends = scratch + kThreads;
  auto* const shared = reinterpret_cast<std::byte*>(ends + (args.groups + 3) / 4 * 4);
  Prepare(T{}, args.layout, shared);
  FollowPreviousKernel();
  // Behind a barrier of the block all have what was prepared.
  CountPieces<kThreads>(
      args.groups, [&](int group) { return TilesOf(args, RowsOf(args, group)); }, scratch, ends);
  const int num_tiles = ends[args.groups - 1];
  for (int i = BlockIdx(); i < num_tiles; i += GridDim()) {
    MultiplyTile(T{}, args, TileAt(args, FindPiece(ends, args.groups, i)), shared);
  }
}

constexpr size_t kMostStagesBytes = kStagesBytes<Int8Chunk>;
static_assert(kMostStagesBytes >= kStagesBytes<Int4Chunk>);
static_assert(kMostStagesBytes == kStagesBytes<Float8Chunk>);
static_assert(kMostStagesBytes >= kTableBytes<Codebook4Chunk> + kStagesBytes<Codebook4Chunk>);

size_t SharedBytes(DType dtype, const QuantizedGemmArgs& args) {
  const auto groups = static_cast<size_t>((args.groups + 3) / 4 * 4);
  const size_t counts = sizeof(int) * (kThreads + groups);
  constexpr size_t kMostCounts = sizeof(int) * (kThreads + kQuantizedGemmMaxGroups);
  if (dtype == DType::kF32) return counts;
  if (args.rows <= kFewRows) {
    const bool has_table = args.layout.format == WeightFormat::kCodebook4;
    return counts + kSumsBytes + (has_table ? kTableBytes<Codebook4Chunk> : 0);
  }
  // Always as many: what a launch asks for is all that the kernel may have until the next one, and
  // graphs have launches of several layouts.
  return kMostCounts + kSumsBytes + kMostStagesBytes;
}

}  // namespace

int QuantizedGemm(const CudaContext& context, DType dtype, const QuantizedGemmArgs& args) {
  const LaunchShape shape = {context.num_multiprocessors * kBlocksPerMultiprocessor, kThreads,
                             SharedBytes(dtype, args)};
  return LaunchFor(dtype, context, shape, QuantizedGemmKernel<F32>, QuantizedGemmKernel<Bf16>,
                   QuantizedGemmKernel<F16>, args);
}

}  // namespace aril::kernels::ARIL_CUDA_TARGET
