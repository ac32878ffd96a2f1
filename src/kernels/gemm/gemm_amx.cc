// One block of 32 columns with Intel AMX tiles: 16 rows of x × 64 bytes along K (32 BF16, or 64
// integers of a byte) meet 16 columns of W × 64 bytes in one instruction, which adds the products
// to 16 × 16 sums of 32 bits.
//
// x comes tile after tile, padded with zero rows to a multiple of 16 and with zeros along K to a
// multiple of 64 bytes. W comes tile after tile as well: 16 consecutive k groups × 16 columns, as
// the instruction wants it.
//
// K is walked in steps of 64 bytes in order, whatever the number of rows; how the instruction adds
// within a step depends on the step alone. So a row's result does not depend on the batch. The sums
// of 32 rows × 32 columns stay in tiles from the first step to the last: to store and load them
// again on the way costs more than reading x and W from L2. Each tile of W asks for the next:
// what the hardware fetches ahead is a fifth less than memory can give.

#include <immintrin.h>

#include "kernels/cpu/amx_tiles.h"
#include "kernels/gemm/gemm_cpu.h"

namespace aril::kernels::amx {
namespace {

enum class Element { kBF16, kByte };

// Adds the products of the tiles x and w to the tile sum. (Tile numbers must be literals.)
#define ARIL_DOT(sum, x, w)                   \
  if constexpr (kElement == Element::kBF16) { \
    _tile_dpbf16ps(sum, x, w);                \
  } else {                                    \
    _tile_dpbusd(sum, x, w);                  \
  }

constexpr int kTileRows = kGemmAmxRows;
constexpr int kTileGroups = kGemmAmxGroups;  // k groups (of 4 bytes) of a step
constexpr int kTileWords = kTileRows * kTileGroups;
constexpr long kStrideBytes = kTileGroups * 4;  // of the rows of a tile of x or W
constexpr int kBlockCols = 32;
constexpr long kSumStrideBytes = kBlockCols * 4;

// Asks for the tile of W after the one at w: of a W that no rows have met yet from memory, else
// from L2. (Past W's end that may be nothing: a prefetch does not fault.)
template <bool kNew>
inline __attribute__((always_inline)) void FetchNext(const uint32_t* w) {
  constexpr long kLineBytes = 64, kTileBytes = kTileWords * 4;
  const uintptr_t from = (uintptr_t)w + kTileBytes;
#pragma GCC unroll 16
  for (long at = 0; at < kTileBytes; at += kLineBytes) {
    _mm_prefetch((const char*)(from + (uintptr_t)at), kNew ? _MM_HINT_T1 : _MM_HINT_T0);
  }
}

// 16 rows × 32 columns, or with kTall 32 × 32, where every tile that is loaded serves two products.
// kNew: no rows have met W yet. `next_rows`: words from the tiles of the first 16 rows to
// those of the second. `sums`: [16 or 32, kBlockCols], where they start unless it is the first
// stretch of K, and where they end.
template <Element kElement, bool kTall, bool kNew>
void RunRows(const GemmBlock& b, const uint32_t* x, int64_t next_rows, float* sums) {
  float* lower = sums + kTileRows * kBlockCols;
  if (b.begins) {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  } else {
    _tile_loadd(0, sums, kSumStrideBytes);
    _tile_loadd(1, sums + 16, kSumStrideBytes);
    if constexpr (kTall) {
      _tile_loadd(2, lower, kSumStrideBytes);
      _tile_loadd(3, lower + 16, kSumStrideBytes);
    }
  }
  const int64_t steps = b.k_groups / kTileGroups;
  for (int64_t step = 0; step < steps; ++step) {
    const uint32_t* w = b.w + step * kTileGroups * kBlockCols;
    _tile_loadd(4, x + step * kTileWords, kStrideBytes);
    FetchNext<kNew>(w);
    _tile_loadd(6, w, kStrideBytes);
    ARIL_DOT(0, 4, 6)
    FetchNext<kNew>(w + kTileWords);
    _tile_loadd(7, w + kTileWords, kStrideBytes);
    ARIL_DOT(1, 4, 7)
    if constexpr (kTall) {
      _tile_loadd(5, x + next_rows + step * kTileWords, kStrideBytes);
      ARIL_DOT(2, 5, 6)
      ARIL_DOT(3, 5, 7)
    }
  }
  _tile_stored(0, sums, kSumStrideBytes);
  _tile_stored(1, sums + 16, kSumStrideBytes);
  if constexpr (kTall) {
    _tile_stored(2, lower, kSumStrideBytes);
    _tile_stored(3, lower + 16, kSumStrideBytes);
  }
}

// The bytes of x stand for themselves minus the offset.
__m512 ScaleProducts(const GemmBlock& b, const float* sums, int64_t row, int64_t col,
                     __mmask16 mask) {
  const __m512i offset = _mm512_mullo_epi32(_mm512_maskz_loadu_epi32(mask, b.col_sums + col),
                                            _mm512_set1_epi32(kGemmByteOffset));
  const __m512i products = _mm512_sub_epi32(_mm512_loadu_si512(sums + col), offset);
  const __m512 scales = _mm512_mul_ps(_mm512_maskz_loadu_ps(mask, b.col_scales + col),
                                      _mm512_set1_ps(b.row_scales[row]));
  return _mm512_mul_ps(_mm512_cvtepi32_ps(products), scales);
}

template <Element kElement>
void WriteRow(const GemmBlock& b, const float* sums, int64_t row) {
  float* y = b.y + row * b.y_stride;
  for (int64_t col = 0; col < b.cols; col += 16) {
    const int64_t left = b.cols - col;
    const __mmask16 mask = left >= 16 ? (__mmask16)0xFFFF : (__mmask16)((1u << left) - 1);
    __m512 v = kElement == Element::kByte ? ScaleProducts(b, sums, row, col, mask)
                                          : _mm512_loadu_ps(sums + col);
    if (b.bias != nullptr) v = _mm512_add_ps(v, _mm512_maskz_loadu_ps(mask, b.bias + col));
    _mm512_mask_storeu_ps(y + col, mask, v);
  }
}

// Rows of sums that wait in y between two stretches of K.
void LoadSums(const GemmBlock& b, int64_t row, float* sums) {
  __builtin_memcpy(sums, b.y + row * b.y_stride, (size_t)b.cols * sizeof(float));
}
void StoreSums(const GemmBlock& b, int64_t row, const float* sums) {
  __builtin_memcpy(b.y + row * b.y_stride, sums, (size_t)b.cols * sizeof(float));
}

template <Element kElement>
void RunBlock(const GemmBlock& b) {
  ConfigureTiles();
  alignas(64) float sums[2 * kTileRows * kBlockCols];
  const int64_t tiles = (b.rows + kTileRows - 1) / kTileRows;
  const int64_t tile_words = kTileRows * b.k_groups;
  for (int64_t tile = 0; tile < tiles; tile += 2) {
    const uint32_t* x = b.x + tile * tile_words;
    const int64_t first = tile * kTileRows;
    const int64_t rows = b.rows - first < 2 * kTileRows ? b.rows - first : 2 * kTileRows;
    if (!b.begins) {
      for (int64_t r = 0; r < rows; ++r) LoadSums(b, first + r, sums + r * kBlockCols);
    }
    const bool is_new = b.w_is_new && tile == 0;
    if (tile + 1 < tiles) {
      is_new ? RunRows<kElement, true, true>(b, x, tile_words, sums)
             : RunRows<kElement, true, false>(b, x, tile_words, sums);
    } else {
      is_new ? RunRows<kElement, false, true>(b, x, 0, sums)
             : RunRows<kElement, false, false>(b, x, 0, sums);
    }
    for (int64_t r = 0; r < rows; ++r) {
      if (b.ends) {
        WriteRow<kElement>(b, sums + r * kBlockCols, first + r);
      } else {
        StoreSums(b, first + r, sums + r * kBlockCols);
      }
    }
  }
  _tile_release();
}

#undef ARIL_DOT

}  // namespace

extern const int64_t kGemmBlockCols = kBlockCols;
extern const int64_t kGemmKMultiple = kTileGroups;

void GemmBlockBF16(const GemmBlock& block) { RunBlock<Element::kBF16>(block); }
void GemmBlockInt8(const GemmBlock& block) { RunBlock<Element::kByte>(block); }

}  // namespace aril::kernels::amx
