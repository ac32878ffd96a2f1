// One block of columns whose weights have four bits: W[n][k] = scale[n] · factor · (q − zero), with
// a factor and a zero point for each kInt4GroupSize along K; x[r][k] = s · p, with an s for each.
//
// Of a group the products are added exactly, as integers; groups are then added in the order of K,
// with one accumulator, so that results do not depend on the batch: acc + s · factor · Σ p (q −
// zero). The zero point's part is − zero · Σ p, of which − Σ p comes with x.
//
// A register tile has its sums twice, of a group and over groups: it is half as wide as a block
// (a quarter with AVX2, which has half of the registers), or twice that for a few rows.

#include "kernels/cpu/simd.h"
#include "kernels/gemm/gemm_blocks.h"
#include "kernels/gemm/gemm_cpu.h"

namespace aril::kernels::ARIL_ISA {
namespace {

constexpr int kBlockVectors = 4;
constexpr int kBlockCols = kBlockVectors * kLanes;
constexpr int kPairs = kInt4GroupSize / 8;  // of k groups: one word of W for both

#if defined(__AVX512BF16__)
constexpr int TileVectors(int64_t rows) { return rows <= 3 ? 4 : 2; }
#else
constexpr int TileVectors(int64_t rows) { return rows <= 3 ? 2 : 1; }
#endif

// A step is a group.
struct Nibbles {
  static constexpr int64_t kCols = kBlockCols;
  static constexpr int64_t kXWords = kInt4XWords;
  static constexpr int64_t kWWords = kBlockCols * kInt4GroupBytes / 4;
  static constexpr int64_t kAheadSteps = 4;  // 5 KiB with AVX-512
  ARIL_INLINE bool LooksAhead(int64_t rows) {
    return rows == 1 && TileVectors(rows) == kBlockVectors;  // else it walks a chunk several times
  }
  ARIL_INLINE int64_t ChunkSteps(int64_t) { return 16; }  // 19 KiB with AVX-512

  // kRows rows of one group and kVectors vectors of columns from `col` on.
  template <int kRows, int kVectors>
  ARIL_INLINE void AddGroup(const uint32_t* w, int64_t col, const uint32_t* x,
                            Vf (&acc)[kRows][kVectors]) {
    const auto* factors = (const uint16_t*)(w + kPairs * kBlockCols);
    const auto* zeros = (const uint8_t*)(factors + kBlockCols);
    Vf sum[kRows][kVectors] = {};
#pragma GCC unroll 4
    for (int pair = 0; pair < kPairs; ++pair) {
      Vu low[kVectors], high[kVectors];
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        const Vu both = LoadWords(w + pair * kBlockCols + col + v * kLanes);
        low[v] = both & 0x0F0F0F0Fu;
        high[v] = both >> 4 & 0x0F0F0F0Fu;
      }
#pragma GCC unroll 6
      for (int r = 0; r < kRows; ++r) {
        const Vu p = x[2 * pair * kRows + r] - Vu{};
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) sum[r][v] = DotSmallBytes(low[v], p, sum[r][v]);
      }
#pragma GCC unroll 6
      for (int r = 0; r < kRows; ++r) {
        const Vu p = x[(2 * pair + 1) * kRows + r] - Vu{};
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) sum[r][v] = DotSmallBytes(high[v], p, sum[r][v]);
      }
    }
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      const Vu zero = WidenBytes(zeros + col + v * kLanes);
      const Vf factor = LoadF16(factors + col + v * kLanes);
#pragma GCC unroll 6
      for (int r = 0; r < kRows; ++r) {
        const Vf total =
            AddProductOfHalves(zero, x[kInt4XSum * kRows + r] - Vu{}, TotalOfSmall(sum[r][v]));
        const Vf s = Set(__builtin_bit_cast(float, x[kInt4XFactor * kRows + r]));
        acc[r][v] = Fma(FromInts(total), s * factor, acc[r][v]);
      }
    }
  }

  template <Nearest kNearest, int kRows>
  ARIL_INLINE void RunTile(const Chunk& c) {
    constexpr int kVectors = TileVectors(kRows);
    constexpr int64_t kParts = kBlockVectors / kVectors;
    const int64_t lines = (c.prefetch_lines + kParts - 1) / kParts;
    const char* prefetch = c.prefetch;
    for (int64_t col = 0; col < kBlockCols; col += kVectors * kLanes) {
      float* sums = c.sums + col;
      Vf acc[kRows][kVectors];
#pragma GCC unroll 6
      for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) {
          acc[r][v] = c.first ? Zero() : Load(sums + r * kBlockCols + v * kLanes);
        }
      }
      for (int64_t step = 0; step < c.steps; ++step) {
        prefetch = Prefetch<kNearest>(prefetch, lines);
        AddGroup<kRows, kVectors>(c.w + step * kWWords, col, c.x + step * kXWords * kRows, acc);
      }
#pragma GCC unroll 6
      for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) Store(sums + r * kBlockCols + v * kLanes, acc[r][v]);
      }
    }
  }
};

template <typename T>
void Quantize(const QuantizeGroups& row) {
  const T* x = static_cast<const T*>(row.x);
  uint32_t* out = row.out;
  for (int64_t first = 0; first < row.size; first += kInt4GroupSize, out += kInt4XWords) {
    const int64_t size = Min(kInt4GroupSize, row.size - first);
    const ByteRange range = RangeOf(x + first, size);
    Vi sum = {};
    for (int64_t i = 0; i < kInt4GroupSize; i += kLanes) {
      const Vi rounded = i < size ? RoundedBytes(x + first + i, size - i, range) : Vi{};
      const Vb bytes = __builtin_convertvector(rounded, Vb);
      __builtin_memcpy((uint8_t*)out + i, &bytes, sizeof(bytes));
      sum += rounded;
    }
    // Exact: at most 32 · 127.
    const auto total = (int32_t)Sum(__builtin_convertvector(sum, Vf));
    __builtin_memcpy(out + kInt4XFactor, &range.scale, sizeof(range.scale));
    out[kInt4XSum] = (uint32_t)-total;
  }
}

}  // namespace

extern const int64_t kGemmInt4BlockCols = kBlockCols;

void GemmBlockInt4(const GemmBlock& block) {
  SumBlock<Nibbles>(block);
  for (int64_t r = 0; block.ends && r < block.rows; ++r) {
    WriteRow(block, block.sums + r * kBlockCols, r);
  }
}

void QuantizeGroupsF32(const QuantizeGroups& row) { Quantize<float>(row); }
void QuantizeGroupsBF16(const QuantizeGroups& row) { Quantize<uint16_t>(row); }

}  // namespace aril::kernels::ARIL_ISA
