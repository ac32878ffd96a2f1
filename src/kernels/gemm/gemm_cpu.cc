// One block of columns: register tiles of up to 6 rows × kVectors vectors of columns. For every k
// group in order, kVectors loads of W meet one broadcast of x per row. Each output therefore sums
// its products in the order of k, with one accumulator, whatever the number of rows: results do not
// depend on the batch.
//
// K is walked in chunks so that a chunk of W stays near while all row tiles pass over it; the
// accumulators of the other tiles wait in `sums`. Meanwhile the next chunk is prefetched, a few
// lines per step, so that W streams from memory once: by a single tile, which comes to it soon,
// into L1; else into L2, as what L1 can wait for at a time is less than memory can give (on a Zen 4
// at 16 rows, 350 GFLOP/s became 420 of 450).

#include "kernels/gemm/gemm_cpu.h"

#include "kernels/cpu/simd.h"

namespace aril::kernels::ARIL_ISA {
namespace {

#if defined(__AVX512BF16__)
constexpr int kVectors = 4;
#else
constexpr int kVectors = 2;
#endif
constexpr int kBlockCols = kVectors * kLanes;
// 16 KiB with AVX-512 are in L1 for a few tiles; for many it costs more that sums are stored and
// loaded again with each chunk than that W comes from L2 (512 rows on a Zen 4: 0.97 of the time).
constexpr int64_t kManyTiles = 7;
constexpr int64_t ChunkGroups(int64_t tiles) { return tiles < kManyTiles ? 64 : 128; }
constexpr int kGroupLines = kBlockCols * 4 / 64 > 0 ? kBlockCols * 4 / 64 : 1;
// A single tile has no later tile to prefetch during: it looks this many groups ahead (4 KiB with
// AVX-512).
constexpr int64_t kAheadGroups = 16;

struct Float32 {
  static constexpr bool kIsInteger = false;
  ARIL_INLINE Vf Multiply(Vu w, uint32_t x, Vf acc) {
    return Fma((Vf)w, Set(__builtin_bit_cast(float, x)), acc);
  }
};

// The accumulators are integers, in the bits of floats.
struct Bytes {
  static constexpr bool kIsInteger = true;
  ARIL_INLINE Vf Multiply(Vu w, uint32_t x, Vf acc) { return DotBytes(x - Vu{}, w, acc); }
};

struct Bfloat16 {
  static constexpr bool kIsInteger = false;
  ARIL_INLINE Vf Multiply(Vu w, uint32_t x, Vf acc) { return DotPairs(w, x - Vu{}, acc); }
};

ARIL_INLINE Vu LoadGroups(const uint32_t* p) {
  Vu v;
  __builtin_memcpy(&v, p, sizeof(v));
  return v;
}

enum class Nearest { kL1 = 3, kL2 = 2 };  // as __builtin_prefetch counts

struct Chunk {
  const uint32_t* w;
  const uint32_t* x;
  int64_t groups;
  float* sums;  // [rows of the tile, kBlockCols]
  bool first;   // sums start at zero
  const uint32_t* prefetch;
  int64_t prefetch_lines;  // per group
};

template <typename T, Nearest kNearest, int kRows>
ARIL_INLINE void RunTile(const Chunk& c) {
  Vf acc[kRows][kVectors];
#pragma GCC unroll 6
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      acc[r][v] = c.first ? Zero() : Load(c.sums + r * kBlockCols + v * kLanes);
    }
  }
  const uint32_t* w = c.w;
  const uint32_t* x = c.x;
  const char* prefetch = reinterpret_cast<const char*>(c.prefetch);
  for (int64_t g = 0; g < c.groups; ++g) {
    for (int64_t line = 0; line < c.prefetch_lines; ++line) {
      __builtin_prefetch(prefetch, 0, (int)kNearest);
      prefetch += 64;
    }
    Vu weights[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) weights[v] = LoadGroups(w + v * kLanes);
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) acc[r][v] = T::Multiply(weights[v], x[r], acc[r][v]);
    }
    w += kBlockCols;
    x += kRows;
  }
#pragma GCC unroll 6
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) Store(c.sums + r * kBlockCols + v * kLanes, acc[r][v]);
  }
}

template <typename T, Nearest kNearest>
ARIL_INLINE void RunTileOf(int64_t rows, const Chunk& chunk) {
  switch (rows) {
    case 1:
      return RunTile<T, kNearest, 1>(chunk);
    case 2:
      return RunTile<T, kNearest, 2>(chunk);
    case 3:
      return RunTile<T, kNearest, 3>(chunk);
    case 4:
      return RunTile<T, kNearest, 4>(chunk);
    case 5:
      return RunTile<T, kNearest, 5>(chunk);
    default:
      return RunTile<T, kNearest, 6>(chunk);
  }
}

void WriteRow(const GemmBlock& b, const float* sums, float* y) {
  for (int64_t col = 0; col < b.cols; col += kLanes) {
    const int64_t n = Min(kLanes, b.cols - col);
    Vf v = Load(sums + col);
    if (b.bias != nullptr) {
      v = v + (n == kLanes ? Load(b.bias + col) : LoadPartial(b.bias + col, n));
    }
    if (n == kLanes) {
      Store(y + col, v);
    } else {
      StorePartial(y + col, v, n);
    }
  }
}

// The bytes of x stand for themselves minus the offset.
void WriteByteRow(const GemmBlock& b, const float* sums, int64_t row) {
  float* y = b.y + row * b.y_stride;
  for (int64_t col = 0; col < b.cols; col += kLanes) {
    const int64_t n = Min(kLanes, b.cols - col);
    const bool whole = n == kLanes;
    Vi col_sums = {};
    __builtin_memcpy(&col_sums, b.col_sums + col, (size_t)n * 4);
    const Vi products = (Vi)Load(sums + col) - col_sums * kGemmByteOffset;
    const Vf scales = whole ? Load(b.col_scales + col) : LoadPartial(b.col_scales + col, n);
    Vf v = __builtin_convertvector(products, Vf) * (scales * Set(b.row_scales[row]));
    if (b.bias != nullptr) v = v + (whole ? Load(b.bias + col) : LoadPartial(b.bias + col, n));
    if (whole) {
      Store(y + col, v);
    } else {
      StorePartial(y + col, v, n);
    }
  }
}

ARIL_INLINE Vf LoadRow(const float* x, int64_t n) {
  return n >= kLanes ? Load(x) : LoadPartial(x, n);
}
ARIL_INLINE Vf LoadRow(const uint16_t* x, int64_t n) {
  return n >= kLanes ? LoadBf16(x) : LoadBf16Partial(x, n);
}

template <typename T>
void Quantize(const QuantizeRow& row) {
  const T* x = static_cast<const T*>(row.x);
  Vf largest = Zero();
  Vi has_nan = {};
  for (int64_t i = 0; i < row.size; i += kLanes) {
    const Vf v = LoadRow(x + i, row.size - i);
    has_nan |= (Vi)(v != v);
    largest = MaxLanes(v < 0.0f ? -v : v, largest);
  }
  float absmax = HorizontalMax(largest);
  for (int lane = 0; lane < kLanes; ++lane) {
    if (has_nan[lane] != 0) absmax = __builtin_nanf("");
  }
  *row.scale = absmax / 127.0f;
  // Nothing that is not finite is converted: its product would be whatever the instruction gives.
  const bool is_usable = absmax > 0.0f && absmax <= __FLT_MAX__;
  const Vf inverse = Set(is_usable ? 127.0f / absmax : 0.0f);
  const Vf shifter = Set(12582912.0f);  // 1.5 · 2^23: adding it rounds to an integer
  const Vi offset = SetInt(kGemmByteOffset) - (Vi)shifter;
  for (int64_t i = 0; i < row.size; i += kLanes) {
    const int64_t n = Min(kLanes, row.size - i);
    const Vf v = is_usable ? LoadRow(x + i, n) : Zero();
    const Vi rounded = (Vi)(v * inverse + shifter) + offset;
    const Vb bytes = __builtin_convertvector(rounded, Vb);
    __builtin_memcpy(row.out + i, &bytes, (size_t)n);
  }
}

template <typename T>
void RunBlock(const GemmBlock& b) {
  float* const sums = b.sums;
  const int64_t tiles = GemmNumTiles(b.rows);
  // With several tiles, each prefetches its share of the next chunk.
  const int64_t share = (kGroupLines + tiles - 1) / tiles;
  const int64_t chunk_groups = ChunkGroups(tiles);
  for (int64_t k = 0; k < b.k_groups; k += chunk_groups) {
    const int64_t groups = Min(chunk_groups, b.k_groups - k);
    const uint32_t* w = b.w + k * kBlockCols;
    const uint32_t* next = w + (tiles == 1 ? kAheadGroups : groups) * kBlockCols;
    int64_t lines_left = kGroupLines;
    for (int64_t tile = 0; tile < tiles; ++tile) {
      const int64_t first = GemmTileFirstRow(b.rows, tile);
      const int64_t rows = GemmTileFirstRow(b.rows, tile + 1) - first;
      const int64_t lines = Min(share, lines_left);
      const Chunk chunk{.w = w,
                        .x = b.x + first * b.k_groups + k * rows,
                        .groups = groups,
                        .sums = sums + first * kBlockCols,
                        .first = k == 0 && b.begins,
                        .prefetch = next,
                        .prefetch_lines = lines};
      if (tiles == 1) {
        RunTileOf<T, Nearest::kL1>(rows, chunk);
      } else {
        RunTileOf<T, Nearest::kL2>(rows, chunk);
      }
      next += lines * groups * 16;
      lines_left -= lines;
    }
  }
  if (!b.ends) return;
  for (int64_t r = 0; r < b.rows; ++r) {
    if constexpr (T::kIsInteger) {
      WriteByteRow(b, sums + r * kBlockCols, r);
    } else {
      WriteRow(b, sums + r * kBlockCols, b.y + r * b.y_stride);
    }
  }
}

}  // namespace

extern const int64_t kGemmBlockCols = kBlockCols;
void GemmBlockF32(const GemmBlock& block) { RunBlock<Float32>(block); }
void GemmBlockBF16(const GemmBlock& block) { RunBlock<Bfloat16>(block); }
void GemmBlockInt8(const GemmBlock& block) { RunBlock<Bytes>(block); }
void QuantizeRowF32(const QuantizeRow& row) { Quantize<float>(row); }
void QuantizeRowBF16(const QuantizeRow& row) { Quantize<uint16_t>(row); }

}  // namespace aril::kernels::ARIL_ISA
