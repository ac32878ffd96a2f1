// One block of 64 columns with Intel AMX tiles: 16 rows of x × 64 bytes along K (32 BF16, or 64
// integers of a byte) meet 16 columns of W × 64 bytes in one instruction, which adds the products
// to 16 × 16 sums of 32 bits.
//
// x comes tile after tile, padded with zero rows to a multiple of 16 and with zeros along K to a
// multiple of 64 bytes. The packed layout of W is the one of the AVX-512 kernel: 16 consecutive k
// groups × 16 columns are a tile as the instruction wants it, at a row stride of 256 bytes.
//
// K is walked in steps of 64 bytes in order, whatever the number of rows; how the instruction adds
// within a step depends on the step alone. So a row's result does not depend on the batch. K is cut
// in chunks whose part of W (32 KiB) stays in L1 while all rows pass over it; the sums of a chunk
// wait in `sums`.

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
constexpr long kXStrideBytes = kTileGroups * 4;
constexpr int kBlockCols = 64;
constexpr int64_t kChunkSteps = 8;
constexpr long kWStrideBytes = kBlockCols * 4;
constexpr long kSumStrideBytes = kBlockCols * 4;

// A chunk of K for some rows of x and all 64 columns.
struct Chunk {
  const uint32_t* w;  // [steps · 16, 64]
  const uint32_t* x;  // tiles of the first 16 rows, from this chunk's first
  int64_t next_rows;  // words to the tiles of the next 16 rows
  int64_t steps;
  float* sums;  // first row, [rows, 64]
  bool first;   // sums start at zero
};

// 16 rows × 64 columns: sums in tiles 0–3. W streams through once, in order: the hardware follows
// that by itself, and software prefetches only cost (12 instead of 15 GB/s of the 18 that one core
// reads).
template <Element kElement>
void RunRows16(const Chunk& c) {
  if (c.first) {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  } else {
    _tile_loadd(0, c.sums, kSumStrideBytes);
    _tile_loadd(1, c.sums + 16, kSumStrideBytes);
    _tile_loadd(2, c.sums + 32, kSumStrideBytes);
    _tile_loadd(3, c.sums + 48, kSumStrideBytes);
  }
  for (int64_t step = 0; step < c.steps; ++step) {
    const uint32_t* w = c.w + step * kTileGroups * kBlockCols;
    _tile_loadd(4, c.x + step * kTileWords, kXStrideBytes);
    _tile_loadd(5, w, kWStrideBytes);
    ARIL_DOT(0, 4, 5)
    _tile_loadd(6, w + 16, kWStrideBytes);
    ARIL_DOT(1, 4, 6)
    _tile_loadd(7, w + 32, kWStrideBytes);
    ARIL_DOT(2, 4, 7)
    _tile_loadd(5, w + 48, kWStrideBytes);
    ARIL_DOT(3, 4, 5)
  }
  _tile_stored(0, c.sums, kSumStrideBytes);
  _tile_stored(1, c.sums + 16, kSumStrideBytes);
  _tile_stored(2, c.sums + 32, kSumStrideBytes);
  _tile_stored(3, c.sums + 48, kSumStrideBytes);
}

// 32 rows × 32 columns: every tile that is loaded serves two products.
template <Element kElement>
void RunRows32Cols32(const Chunk& c, int col) {
  float* top = c.sums + col;
  float* bottom = top + kTileRows * kBlockCols;
  if (c.first) {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  } else {
    _tile_loadd(0, top, kSumStrideBytes);
    _tile_loadd(1, top + 16, kSumStrideBytes);
    _tile_loadd(2, bottom, kSumStrideBytes);
    _tile_loadd(3, bottom + 16, kSumStrideBytes);
  }
  const uint32_t* lower_x = c.x + c.next_rows;
  for (int64_t step = 0; step < c.steps; ++step) {
    const uint32_t* w = c.w + step * kTileGroups * kBlockCols + col;
    _tile_loadd(4, c.x + step * kTileWords, kXStrideBytes);
    _tile_loadd(6, w, kWStrideBytes);
    ARIL_DOT(0, 4, 6)
    _tile_loadd(7, w + 16, kWStrideBytes);
    ARIL_DOT(1, 4, 7)
    _tile_loadd(5, lower_x + step * kTileWords, kXStrideBytes);
    ARIL_DOT(2, 5, 6)
    ARIL_DOT(3, 5, 7)
  }
  _tile_stored(0, top, kSumStrideBytes);
  _tile_stored(1, top + 16, kSumStrideBytes);
  _tile_stored(2, bottom, kSumStrideBytes);
  _tile_stored(3, bottom + 16, kSumStrideBytes);
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

template <Element kElement>
void RunBlock(const GemmBlock& b) {
  ConfigureTiles();
  alignas(64) float sums[kGemmMaxPassRows * kBlockCols];
  const int64_t rows = (b.rows + kTileRows - 1) / kTileRows * kTileRows;
  const int64_t steps = b.k_groups / kTileGroups;
  for (int64_t step = 0; step < steps; step += kChunkSteps) {
    Chunk chunk{.w = b.w + step * kTileGroups * kBlockCols,
                .x = b.x + step * kTileWords,
                .next_rows = kTileRows * b.k_groups,
                .steps = steps - step < kChunkSteps ? steps - step : kChunkSteps,
                .sums = sums,
                .first = step == 0};
    int64_t row = 0;
    for (; row + 2 * kTileRows <= rows; row += 2 * kTileRows) {
      RunRows32Cols32<kElement>(chunk, 0);
      RunRows32Cols32<kElement>(chunk, 32);
      chunk.x += 2 * chunk.next_rows;
      chunk.sums += 2 * kTileRows * kBlockCols;
    }
    if (row < rows) RunRows16<kElement>(chunk);
  }
  _tile_release();
  for (int64_t r = 0; r < b.rows; ++r) WriteRow<kElement>(b, sums + r * kBlockCols, r);
}

#undef ARIL_DOT

}  // namespace

extern const int64_t kGemmBlockCols = kBlockCols;
extern const int64_t kGemmKMultiple = kTileGroups;

void GemmBlockBF16(const GemmBlock& block) { RunBlock<Element::kBF16>(block); }
void GemmBlockInt8(const GemmBlock& block) { RunBlock<Element::kByte>(block); }

}  // namespace aril::kernels::amx
