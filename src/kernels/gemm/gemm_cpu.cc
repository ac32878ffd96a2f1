// One block of columns: register tiles of up to 6 rows × kVectors vectors of columns. For every k
// group in order, kVectors loads of W meet one broadcast of x per row. Each output therefore sums
// its products in the order of k, with one accumulator, whatever the number of rows: results do not
// depend on the batch.

#include "kernels/gemm/gemm_cpu.h"

#include "kernels/cpu/simd.h"
#include "kernels/gemm/gemm_blocks.h"

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

// A step is a k group.
template <typename T>
struct Groups {
  static constexpr int64_t kCols = kBlockCols;
  static constexpr int64_t kXWords = 1;
  static constexpr int64_t kWWords = kBlockCols;
  static constexpr int64_t kAheadSteps = 16;  // 4 KiB with AVX-512
  ARIL_INLINE bool LooksAhead(int64_t) { return true; }
  ARIL_INLINE int64_t ChunkSteps(int64_t tiles) { return tiles < kManyTiles ? 64 : 128; }

  template <Nearest kNearest, int kRows>
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
    const char* prefetch = c.prefetch;
    for (int64_t step = 0; step < c.steps; ++step) {
      prefetch = Prefetch<kNearest>(prefetch, c.prefetch_lines);
      Vu weights[kVectors];
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) weights[v] = LoadWords(w + v * kLanes);
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
};

// The bytes of x stand for themselves minus the offset.
void WriteByteRow(const GemmBlock& b, const float* sums, int64_t row) {
  float* y = b.y + row * b.y_stride;
  for (int64_t col = 0; col < b.cols; col += kLanes) {
    const int64_t n = Min(kLanes, b.cols - col);
    Vi col_sums = {};
    __builtin_memcpy(&col_sums, b.col_sums + col, (size_t)n * 4);
    const Vi products = (Vi)Load(sums + col) - col_sums * kGemmByteOffset;
    const Vf scales = LoadUpTo(b.col_scales + col, n) * Set(b.row_scales[row]);
    Vf v = __builtin_convertvector(products, Vf) * scales;
    if (b.bias != nullptr) v = v + LoadUpTo(b.bias + col, n);
    StoreUpTo(y + col, v, n);
  }
}

template <typename T>
void Quantize(const QuantizeRow& row) {
  const T* x = static_cast<const T*>(row.x);
  const ByteRange range = RangeOf(x, row.size);
  *row.scale = range.scale;
  for (int64_t i = 0; i < row.size; i += kLanes) {
    const int64_t n = Min(kLanes, row.size - i);
    const Vb bytes = __builtin_convertvector(RoundedBytes(x + i, n, range) + kGemmByteOffset, Vb);
    __builtin_memcpy(row.out + i, &bytes, (size_t)n);
  }
}

template <typename T>
void RunBlock(const GemmBlock& b) {
  SumBlock<Groups<T>>(b);
  for (int64_t r = 0; b.ends && r < b.rows; ++r) {
    if constexpr (T::kIsInteger) {
      WriteByteRow(b, b.sums + r * kBlockCols, r);
    } else {
      WriteRow(b, b.sums + r * kBlockCols, r);
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
