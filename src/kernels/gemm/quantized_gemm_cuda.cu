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

#include "kernels/gemm/quantized_gemm_cuda.h"

#include "kernels/cuda/elements.h"
#include "kernels/cuda/groups.h"
#include "kernels/lora/matrix_rows_cuda.h"

namespace aril::kernels::ARIL_CUDA_TARGET {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarpSize;
// Of 128 registers for each thread, a multiprocessor has enough for two blocks.
constexpr int kBlocksPerMultiprocessor = 2;

constexpr int kSlices = 8;  // of k
static_assert(kSlices == kWarps);

// Of a warp: 32 outputs, which are a tile of W, and up to 32 rows.
constexpr int kColOperands = 2;
constexpr int kMaxSlots = 4;  // instructions of 8 rows
template <int kSlots>
using WarpSums = float[kColOperands][kSlots][4];
template <int kSlots>
constexpr int kSumsOfLane = kColOperands* kSlots * 4;

constexpr int kFewRows = 8 * kMaxSlots;
// What a warp has on its way of W: with one slot there are registers for more.
template <int kSlots>
constexpr int kChunksAhead = kSlots == 1 ? 8 : 2;

// Of a block, in the way of many rows.
constexpr int kManyTiles = 2;  // of W
constexpr int kManyRows = 128;
constexpr int kRowWarps = kWarps / kManyTiles;
constexpr int kStageChunks = 2;
constexpr int kStageDepth = kStageChunks * kQuantizedDepth;
constexpr int kUnits = kStageDepth / 8;
constexpr int kStages = 3;
constexpr int kRowStep = kThreads / kUnits;  // rows of a thread's copies: 8 threads copy a row
constexpr int kCopiedRows = kManyRows / kRowStep;

template <int kSlots>
ARIL_DEVICE float& SumAt(WarpSums<kSlots>& sums, int i) {
  return sums[i / 4 / kSlots][i / 4 % kSlots][i % 4];
}

// What lies in a warp's sums where: outputs and rows of its tile.
ARIL_DEVICE int ColOf(int operand, int i) {
  return operand * 16 + ThreadIdx() % kWarpSize / 4 + i / 2 * 8;
}
ARIL_DEVICE int RowInSlot(int i) { return ThreadIdx() % 4 * 2 + i % 2; }

// --- Weights in registers ---

struct Int4 {
  static constexpr int kChunkVectors = kWarpSize;  // of 16 bytes
  Vector16 words;

  // `chunk`: its first vector, in shared or in global memory.
  ARIL_DEVICE static Int4 FromShared(const Vector16* chunk) {
    return {chunk[ThreadIdx() % kWarpSize]};
  }
  ARIL_DEVICE static Int4 FromGlobal(const Vector16* chunk) {
    return {LoadWeights16(chunk + ThreadIdx() % kWarpSize)};
  }
  // Eight elements of the lane's output `i`: levels less their zero point. Both are below 16, so
  // that beside T's first power of two whose unit is one they are the last bits of a number.
  template <typename T>
  ARIL_DEVICE Vector16 Elements(int i, uint32_t zeros) const {
    const uint32_t zero = zeros >> 8 * i & 0xFF;
    const uint32_t minus = (T::kUnitPower | zero | zero << 16) ^ 0x80008000u;
    Vector16 elements;
#pragma unroll
    for (int pair = 0; pair < 4; ++pair) {
      const uint32_t levels = words.words[i] >> 4 * pair & 0x000F000Fu;
      elements.words[pair] = T::AddPairs(levels | T::kUnitPower, minus);
    }
    return elements;
  }
};

struct Int8 {
  static constexpr int kChunkVectors = 2 * kWarpSize;
  Vector16 halves[2];

  ARIL_DEVICE static Int8 FromShared(const Vector16* chunk) {
    const int lane = ThreadIdx() % kWarpSize;
    return {{chunk[lane], chunk[kWarpSize + lane]}};
  }
  ARIL_DEVICE static Int8 FromGlobal(const Vector16* chunk) {
    const int lane = ThreadIdx() % kWarpSize;
    return {{LoadWeights16(chunk + lane), LoadWeights16(chunk + kWarpSize + lane)}};
  }
  // The same by way of fp32, where a byte is the end of 2^23.
  template <typename T>
  ARIL_DEVICE Vector16 Elements(int i, uint32_t) const {
    const auto level = [](uint32_t byte) {
      return BitCast<float>(0x4B000000u | byte) - static_cast<float>((1 << 23) + 128);
    };
    Vector16 elements;
#pragma unroll
    for (int pair = 0; pair < 4; ++pair) {
      const uint32_t bytes = halves[i / 2].words[i % 2 * 2 + pair / 2] >> pair % 2 * 16;
      elements.words[pair] = T::Pack(level(bytes & 0xFF), level(bytes >> 8 & 0xFF));
    }
    return elements;
  }
};

ARIL_DEVICE int FirstChunk(const QuantizedLayout& layout, int slice) {
  return static_cast<int>(static_cast<int64_t>(layout.chunks) * slice / kSlices);
}

// A warp's sums of a slice, of products with one tile of W.
template <typename W, int kSlots>
struct SliceSums;

template <int kSlots>
struct SliceSums<Int8, kSlots> {
  WarpSums<kSlots> slice = {};

  ARIL_DEVICE SliceSums(const QuantizedLayout&, const std::byte*) {}
  ARIL_DEVICE void Begin(int) {}
  ARIL_DEVICE uint32_t zeros() const { return 0; }
  ARIL_DEVICE WarpSums<kSlots>& sums() { return slice; }
  ARIL_DEVICE void EndChunk(int, bool) {}
};

template <int kSlots>
struct SliceSums<Int4, kSlots> {
  WarpSums<kSlots> slice = {};
  WarpSums<kSlots> group = {};
  const std::byte* tile;
  const QuantizedLayout& layout;
  int index = 0, end = 0;  // the group, and the chunk behind its last one
  uint32_t group_zeros = 0;
  uint64_t factors = 0;

  ARIL_DEVICE SliceSums(const QuantizedLayout& of, const std::byte* at) : tile(at), layout(of) {}
  ARIL_DEVICE void Begin(int chunk) {
    index = chunk / layout.group_chunks;
    Load();
  }
  ARIL_DEVICE void Load() {
    end = (index + 1) * layout.group_chunks;
    if (index * layout.group_chunks >= layout.chunks) return;
    const int place = index * 8 + ThreadIdx() % kWarpSize / 4;
    group_zeros = reinterpret_cast<const uint32_t*>(tile + layout.zeros_offset)[place];
    factors = reinterpret_cast<const uint64_t*>(tile + layout.factors_offset)[place];
  }
  ARIL_DEVICE uint32_t zeros() const { return group_zeros; }
  ARIL_DEVICE WarpSums<kSlots>& sums() { return group; }
  // Of the chunk that was multiplied last.
  ARIL_DEVICE void EndChunk(int chunk, bool ends_slice) {
    if (chunk + 1 < end && !ends_slice) return;
#pragma unroll
    for (int c = 0; c < kColOperands; ++c) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int output = 2 * c + i / 2;
        const float factor = F16ToFloat(static_cast<uint16_t>(factors >> 16 * output));
#pragma unroll
        for (int slot = 0; slot < kSlots; ++slot) {
          slice[c][slot][i] = MultiplyAdd(factor, group[c][slot][i], slice[c][slot][i]);
          group[c][slot][i] = 0;
        }
      }
    }
    if (chunk + 1 < end) return;
    ++index;
    Load();
  }
};

// A chunk's products. `x_of(slot)`: 16 bytes of the lane's row of x.
template <typename T, typename W, int kSlots, typename XOf>
ARIL_DEVICE void MultiplyChunk(const W& w, const XOf& x_of, int num_slots,
                               SliceSums<W, kSlots>& sums) {
  Vector16 elements[2 * kColOperands];
#pragma unroll
  for (int i = 0; i < 2 * kColOperands; ++i) {
    elements[i] = w.template Elements<T>(i, sums.zeros());
  }
#pragma unroll
  for (int slot = 0; slot < kSlots; ++slot) {
    if (slot >= num_slots) break;
    const Vector16 x = x_of(slot);
#pragma unroll
    for (int c = 0; c < kColOperands; ++c) {
      TwoInstructions<T>(elements[2 * c], elements[2 * c + 1], x, sums.sums()[c][slot]);
    }
  }
}

// --- Work of one block ---

struct Tile {
  int group;
  int first_row;  // of y
  int num_rows;
  int first_col;
  int num_cols;
  const std::byte* w;  // of the first column
};

ARIL_DEVICE int FirstRow(const QuantizedGemmArgs& args, int group) {
  return args.first_rows == nullptr ? 0 : args.first_rows[group];
}
ARIL_DEVICE int RowsOf(const QuantizedGemmArgs& args, int group) {
  if (args.first_rows == nullptr) return args.rows;
  return args.first_rows[group + 1] - args.first_rows[group];
}

ARIL_DEVICE int ColsOfTile(int rows) {
  return rows <= kFewRows ? kQuantizedCols : kManyTiles * kQuantizedCols;
}
ARIL_DEVICE int RowTiles(int rows) {
  return rows <= kFewRows ? (rows > 0) : (rows + kManyRows - 1) / kManyRows;
}
ARIL_DEVICE int TilesOf(const QuantizedGemmArgs& args, int rows) {
  const int cols = ColsOfTile(rows);
  return (args.layout.n + cols - 1) / cols * RowTiles(rows);
}

// Those of the same columns follow one another. All are of as many rows, but for whole eights.
ARIL_DEVICE Tile TileAt(const QuantizedGemmArgs& args, const PieceOfGroup& piece) {
  const QuantizedLayout& layout = args.layout;
  const int of_group = RowsOf(args, piece.group);
  const int row_tiles = RowTiles(of_group), cols = ColsOfTile(of_group);
  const int rows_each = ((of_group + row_tiles - 1) / row_tiles + 7) / 8 * 8;
  const int before = piece.piece % row_tiles * rows_each;
  const int first_col = piece.piece / row_tiles * cols;
  const int num_rows = of_group - before < rows_each ? of_group - before : rows_each;
  const int num_cols = layout.n - first_col < cols ? layout.n - first_col : cols;
  const int64_t tiles = (layout.n + kQuantizedCols - 1) / kQuantizedCols;
  const int64_t tile = piece.group * tiles + first_col / kQuantizedCols;
  return {piece.group, FirstRow(args, piece.group) + before, num_rows, first_col,
          num_cols,    args.w + tile * layout.tile_bytes};
}

// x as a tile's products read it.
template <typename Element>
struct Input {
  const QuantizedGemmArgs& args;
  const int32_t* inputs;
  int first_row;
  int num_rows;
  bool aligned;

  ARIL_DEVICE Input(const QuantizedGemmArgs& all, const Tile& tile)
      : args(all),
        inputs(all.inputs == nullptr
                   ? nullptr
                   : all.inputs + static_cast<int64_t>(tile.group) * all.layout.k),
        first_row(tile.first_row),
        num_rows(tile.num_rows),
        aligned(inputs == nullptr && all.x_stride % 8 == 0 && IsAligned16(all.x)) {}

  // The number of a row in x; -1 where there is none.
  ARIL_DEVICE int NumberOf(int row) const {
    if (row >= num_rows) return -1;
    return args.x_rows == nullptr ? first_row + row : args.x_rows[first_row + row];
  }
  ARIL_DEVICE const Element* At(int number) const {
    if (number < 0) return nullptr;
    return reinterpret_cast<const Element*>(args.x) + number * args.x_stride;
  }
  ARIL_DEVICE const Element* Row(int row) const { return At(NumberOf(row)); }
  ARIL_DEVICE Element Of(const Element* row, int k) const {
    return row[inputs == nullptr ? k : inputs[k]];
  }
  // Elements [first, first + 8), zeros behind the last.
  ARIL_DEVICE Vector16 Eight(const Element* row, int first) const {
    const int size = args.layout.k;
    if (row == nullptr) return {};
    if (aligned && first + 8 <= size) return Load16(row + first);
    if (inputs == nullptr) return LoadEight(row, first, size);
    Vector16 eight = {};
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      if (first + i < size) {
        eight.words[i / 2] |= static_cast<uint32_t>(row[inputs[first + i]]) << 16 * (i % 2);
      }
    }
    return eight;
  }
};

ARIL_DEVICE void StoreResult(const QuantizedGemmArgs& args, const Tile& tile, int row, int col,
                             float sum) {
  if (row >= tile.num_rows || col >= tile.num_cols) return;
  const std::byte* const w =
      tile.w + static_cast<int64_t>(col / kQuantizedCols) * args.layout.tile_bytes;
  const float scale =
      reinterpret_cast<const float*>(w + args.layout.scales_offset)[col % kQuantizedCols];
  const int64_t of_y = tile.first_row + row;
  const int of_w = tile.first_col + col;
  const float bias = args.bias == nullptr ? 0 : args.bias[of_w];
  args.y[of_y * args.y_stride + of_w] = MultiplyAdd(scale, sum, bias);
}

// --- Few rows ---

// A warp's slice, of the only tile of W.
template <typename T, typename W, int kSlots>
ARIL_DEVICE void MultiplySlice(const QuantizedGemmArgs& args, const Tile& tile, int slice,
                               SliceSums<W, kSlots>& sums) {
  const Input<uint16_t> input(args, tile);
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
      if (first + i < end) w[i] = W::FromGlobal(chunks + (first + i) * W::kChunkVectors);
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
ARIL_DEVICE void MultiplyFew(const QuantizedGemmArgs& args, const Tile& tile, float* slices) {
  constexpr int kSums = kSumsOfLane<kSlots>;
  const int warp = ThreadIdx() / kWarpSize, lane = ThreadIdx() % kWarpSize;
  SliceSums<W, kSlots> sums(args.layout, tile.w);
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
constexpr int kStageVectors = kManyRows* kUnits + kManyTiles* kStageChunks* W::kChunkVectors;

// Where a stage has unit `unit` of a row: such that no two of the eight lanes that read at once,
// four units of two rows, share a bank.
ARIL_DEVICE int VectorAt(int row, int unit) { return row * kUnits + (unit ^ (row & 1) << 2); }

// What a thread copies of a tile: one unit of some rows, and some vectors of W.
template <typename W>
struct Copier {
  Input<uint16_t> input;
  int rows[kCopiedRows];  // of x, or -1
  const QuantizedLayout& layout;
  const Vector16* w;
  int tiles;
  int num_rows;  // that are multiplied: whole eights

  ARIL_DEVICE Copier(const QuantizedGemmArgs& args, const Tile& tile)
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
    constexpr int kOfTile = kStageChunks * W::kChunkVectors;
    const int first = stage * kOfTile;
#pragma unroll
    for (int i = ThreadIdx(); i < kManyTiles * kOfTile; i += kThreads) {
      const int tile = i / kOfTile, vector = first + i % kOfTile;
      const bool present = tile < tiles && vector < layout.chunks * W::kChunkVectors;
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

  ARIL_DEVICE Walk(const QuantizedLayout& of, const std::byte* tile, float* to)
      : sums(of, tile), layout(of), total(to) {
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

// `stages`: kStages of them, `totals` [kManySums, kThreads].
template <typename T, typename W>
ARIL_DEVICE void MultiplyMany(const QuantizedGemmArgs& args, const Tile& tile, Vector16* stages,
                              float* totals) {
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
  Walk<T, W> walk(args.layout, w, totals + ThreadIdx());
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
        x + kManyRows * kUnits + of_block * kStageChunks * W::kChunkVectors;
#pragma unroll
    for (int i = 0; i < kStageChunks; ++i) {
      const int chunk = stage * kStageChunks + i;
      if (chunk >= args.layout.chunks) break;
      walk.Multiply(
          chunk, W::FromShared(chunks + i * W::kChunkVectors),
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

// A level less its zero point, of column `col` of a tile of W.
ARIL_DEVICE float LevelAt(const QuantizedLayout& layout, const std::byte* w, int col, int k) {
  const int chunk = k / kQuantizedDepth, in_chunk = k % kQuantizedDepth;
  const int lane = col % 8 * 4 + in_chunk / 8, of_lane = col / 8, i = in_chunk % 8;
  if (layout.format == WeightFormat::kInt8) {
    const auto* const half = w + (static_cast<int64_t>(chunk) * 2 + of_lane / 2) * kWarpSize * 16;
    return static_cast<float>(static_cast<int>(half[lane * 16 + of_lane % 2 * 8 + i]) - 128);
  }
  const auto* const vector =
      reinterpret_cast<const Vector16*>(w) + static_cast<int64_t>(chunk) * kWarpSize + lane;
  const uint32_t level = vector->words[of_lane] >> (i / 2 * 4 + i % 2 * 16) & 15;
  const int index = chunk / layout.group_chunks * kQuantizedCols + col % 8 * 4 + of_lane;
  const int zero = static_cast<int>(w[layout.zeros_offset + index]);
  return static_cast<float>(static_cast<int>(level) - zero);
}

ARIL_DEVICE float FactorAt(const QuantizedLayout& layout, const std::byte* w, int col, int chunk) {
  if (layout.format == WeightFormat::kInt8) return 1;
  const int index = chunk / layout.group_chunks * kQuantizedCols + col % 8 * 4 + col / 8;
  return F16ToFloat(reinterpret_cast<const uint16_t*>(w + layout.factors_offset)[index]);
}

ARIL_DEVICE float SumInFloat(const QuantizedGemmArgs& args, const Input<float>& input,
                             const float* row, const std::byte* w, int col) {
  const QuantizedLayout& layout = args.layout;
  const bool has_groups = layout.format == WeightFormat::kInt4;
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

ARIL_DEVICE void MultiplyTile(F32, const QuantizedGemmArgs& args, const Tile& tile, std::byte*) {
  const Input<float> input(args, tile);
  for (int i = ThreadIdx(); i < tile.num_rows * tile.num_cols; i += kThreads) {
    const int row = i / tile.num_cols, col = i % tile.num_cols;
    const std::byte* const w =
        tile.w + static_cast<int64_t>(col / kQuantizedCols) * args.layout.tile_bytes;
    StoreResult(args, tile, row, col,
                SumInFloat(args, input, input.Row(row), w, col % kQuantizedCols));
  }
}

template <typename T, typename W>
ARIL_DEVICE void MultiplyWith(const QuantizedGemmArgs& args, const Tile& tile, std::byte* shared) {
  auto* const floats = reinterpret_cast<float*>(shared);
  const int rows = RowsOf(args, tile.group);
  TrapUnless(rows <= args.rows, "a group of more rows than the launch has memory for");
  if (rows <= 8) {
    MultiplyFew<T, W, 1>(args, tile, floats);
  } else if (rows <= kFewRows) {
    MultiplyFew<T, W, kMaxSlots>(args, tile, floats);
  } else {
    auto* const stages = reinterpret_cast<Vector16*>(floats + kManySums * kThreads);
    MultiplyMany<T, W>(args, tile, stages, floats);
  }
}

template <typename T>
ARIL_DEVICE void MultiplyTile(T, const QuantizedGemmArgs& args, const Tile& tile,
                              std::byte* shared) {
  if (args.layout.format == WeightFormat::kInt4) {
    MultiplyWith<T, Int4>(args, tile, shared);
  } else {
    MultiplyWith<T, Int8>(args, tile, shared);
  }
}

template <typename T>
ARIL_KERNEL(kThreads, kBlocksPerMultiprocessor)
QuantizedGemmKernel(ARIL_PARAMETER QuantizedGemmArgs args) {
  FollowPreviousKernel();
  auto* const scratch = SharedMemory<int>();
  int* const ends = scratch + kThreads;
  auto* const shared = reinterpret_cast<std::byte*>(ends + (args.groups + 3) / 4 * 4);
  CountPieces<kThreads>(
      args.groups, [&](int group) { return TilesOf(args, RowsOf(args, group)); }, scratch, ends);
  const int num_tiles = ends[args.groups - 1];
  for (int i = BlockIdx(); i < num_tiles; i += GridDim()) {
    MultiplyTile(T{}, args, TileAt(args, FindPiece(ends, args.groups, i)), shared);
  }
}

static_assert(kStageVectors<Int8> >= kStageVectors<Int4>);
// Sums of slices, or of threads, are as many.
constexpr size_t kSumsBytes = sizeof(float) * kManySums * kThreads;
static_assert(kSlices * kWarpSize == kThreads);

size_t SharedBytes(DType dtype, const QuantizedGemmArgs& args) {
  const auto groups = static_cast<size_t>((args.groups + 3) / 4 * 4);
  const size_t counts = sizeof(int) * (kThreads + groups);
  constexpr size_t kMostCounts = sizeof(int) * (kThreads + kQuantizedGemmMaxGroups);
  if (dtype == DType::kF32) return counts;
  if (args.rows <= kFewRows) return counts + kSumsBytes;
  // Always as many: what a launch asks for is all that the kernel may have until the next one, and
  // graphs have launches of several layouts.
  return kMostCounts + kSumsBytes + sizeof(Vector16) * kStages * size_t{kStageVectors<Int8>};
}

}  // namespace

int QuantizedGemm(const CudaContext& context, DType dtype, const QuantizedGemmArgs& args) {
  const LaunchShape shape = {context.num_multiprocessors * kBlocksPerMultiprocessor, kThreads,
                             SharedBytes(dtype, args)};
  return LaunchFor(dtype, context, shape, QuantizedGemmKernel<F32>, QuantizedGemmKernel<Bf16>,
                   QuantizedGemmKernel<F16>, args);
}

}  // namespace aril::kernels::ARIL_CUDA_TARGET
