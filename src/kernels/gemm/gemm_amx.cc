// One block of 32 columns with Intel AMX tiles: 16 rows of x × 64 bytes along K (32 BF16, or 64
// integers of a byte) meet 16 columns of W × 64 bytes in one instruction, which adds the products
// to 16 × 16 sums of 32 bits.
//
// x comes tile after tile, padded with zero rows to a multiple of 16 and with zeros along K to a
// multiple of 64 bytes. W comes tile after tile as well: 16 consecutive k groups × 16 columns, as
// the instruction wants it.
//
// K is walked in steps of 64 bytes in order, whatever the number of rows; how the instruction adds
// within a step depends on the step alone. So a row's result does not depend on the batch.
//
// A few rows keep their sums in tiles over all of K, and each tile of W asks for the next: what the
// hardware fetches ahead is a fifth less than memory can give. Many rows meet a panel of W while it
// is in L1, and their sums are stored and loaded again from panel to panel: two of the four tiles
// of a step come from L1 then, and the next panel from memory meanwhile. Their x goes past L1,
// which it would take from W (TILELOADDT1).

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

// What is asked for while a step of K is computed. (Past W's end that may be nothing: a prefetch
// does not fault.)
enum class Fetch {
  kFromMemory,  // with each tile of W the one after it: rows that are the first to meet W
  kFromL2,      // the same, by the rows after them
  kSpread,      // some lines of what is read after this panel of W, as all its rows go by
};

constexpr long kLineBytes = 64, kTileBytes = kTileWords * 4;

template <Fetch kFetch>
inline __attribute__((always_inline)) void FetchNextTile(const uint32_t* w) {
  const uintptr_t from = (uintptr_t)w + kTileBytes;
#pragma GCC unroll 16
  for (long at = 0; at < kTileBytes; at += kLineBytes) {
    _mm_prefetch((const char*)(from + (uintptr_t)at),
                 kFetch == Fetch::kFromMemory ? _MM_HINT_T1 : _MM_HINT_T0);
  }
}

// A part of K: x from the first of its steps (`next_rows`: words from the tiles of the first 16
// rows to those of the second), and W.
struct Panel {
  const uint32_t* x;
  int64_t next_rows;
  const uint32_t* w;
  int64_t steps;
  bool begins;  // nothing is in `sums` yet
};

// A tile of x, which will not be wanted again before W's next block if many rows go by.
#define ARIL_LOAD_X(tile, from)                   \
  if constexpr (kFetch == Fetch::kSpread) {       \
    _tile_stream_loadd(tile, from, kStrideBytes); \
  } else {                                        \
    _tile_loadd(tile, from, kStrideBytes);        \
  }

// Lines to ask for, so many with each step.
struct Ahead {
  const char* from;
  int64_t lines_per_step;
};

// Stores of tiles that come more than some 650 ns after the one before take 280 ns longer (measured
// on a Granite-Rapids-class core). So rows that wait for no memory store a tile once in so many
// steps, where its sums go in the end anyway.
constexpr int64_t kAwakeSteps = 16;

// 16 rows × 32 columns, or with kTall 32 × 32, where every tile that is loaded serves two products.
// `sums`: tiles [2 or 4][16, 16] of those of the rows, then of the columns.
template <Element kElement, bool kTall, Fetch kFetch>
void RunRows(const Panel& p, Ahead ahead, float* sums) {
  constexpr int kTile = kTileRows * kGemmAmxCols;
  if (p.begins) {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  } else {
    _tile_loadd(0, sums, kStrideBytes);
    _tile_loadd(1, sums + kTile, kStrideBytes);
    if constexpr (kTall) {
      _tile_loadd(2, sums + 2 * kTile, kStrideBytes);
      _tile_loadd(3, sums + 3 * kTile, kStrideBytes);
    }
  }
  for (int64_t step = 0; step < p.steps; ++step) {
    if constexpr (kFetch == Fetch::kFromL2) {
      if (step % kAwakeSteps == kAwakeSteps - 1) _tile_stored(0, sums, kStrideBytes);
    }
    const uint32_t* w = p.w + step * kTileGroups * kBlockCols;
    ARIL_LOAD_X(4, p.x + step * kTileWords)
    if constexpr (kFetch != Fetch::kSpread) FetchNextTile<kFetch>(w);
    _tile_loadd(6, w, kStrideBytes);
    ARIL_DOT(0, 4, 6)
    if constexpr (kFetch != Fetch::kSpread) {
      FetchNextTile<kFetch>(w + kTileWords);
    } else {
      for (int64_t i = 0; i < ahead.lines_per_step; ++i, ahead.from += kLineBytes) {
        _mm_prefetch(ahead.from, _MM_HINT_T1);
      }
    }
    _tile_loadd(7, w + kTileWords, kStrideBytes);
    ARIL_DOT(1, 4, 7)
    if constexpr (kTall) {
      ARIL_LOAD_X(5, p.x + p.next_rows + step * kTileWords)
      ARIL_DOT(2, 5, 6)
      ARIL_DOT(3, 5, 7)
    }
  }
  _tile_stored(0, sums, kStrideBytes);
  _tile_stored(1, sums + kTile, kStrideBytes);
  if constexpr (kTall) {
    _tile_stored(2, sums + 2 * kTile, kStrideBytes);
    _tile_stored(3, sums + 3 * kTile, kStrideBytes);
  }
}

// Of a row's sums, which begin at `sums`, those from column `col` on (0 or 16).
const float* SumsOf(const float* sums, int64_t col) {
  return sums + col / kGemmAmxCols * kTileRows * kGemmAmxCols;
}

// The bytes of x stand for themselves minus the offset.
__m512 ScaleProducts(const GemmBlock& b, const float* sums, int64_t row, int64_t col,
                     __mmask16 mask) {
  const __m512i offset = _mm512_mullo_epi32(_mm512_maskz_loadu_epi32(mask, b.col_sums + col),
                                            _mm512_set1_epi32(kGemmByteOffset));
  const __m512i products = _mm512_sub_epi32(_mm512_loadu_si512(SumsOf(sums, col)), offset);
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
                                          : _mm512_loadu_ps(SumsOf(sums, col));
    if (b.bias != nullptr) v = _mm512_add_ps(v, _mm512_maskz_loadu_ps(mask, b.bias + col));
    _mm512_mask_storeu_ps(y + col, mask, v);
  }
}

// Steps of a panel, whose 32 KiB stay in L1.
constexpr int64_t kPanelSteps = 16;
constexpr int kPairRows = 2 * kTileRows;

template <Element kElement, Fetch kFetch>
void RunPair(const Panel& panel, Ahead ahead, bool is_tall, float* sums) {
  is_tall ? RunRows<kElement, true, kFetch>(panel, ahead, sums)
          : RunRows<kElement, false, kFetch>(panel, ahead, sums);
}

template <Element kElement>
void RunBlock(const GemmBlock& b) {
  ConfigureTiles();
  const int64_t pairs = (b.rows + kPairRows - 1) / kPairRows;
  const int64_t steps = b.x_words / kTileGroups;
  const bool is_whole = b.rows <= kGemmAmxMaxWholeRows;
  const int64_t panel_steps = is_whole ? steps : kPanelSteps;
  for (int64_t step = 0; step < steps; step += panel_steps) {
    const int64_t count = steps - step < panel_steps ? steps - step : panel_steps;
    const int64_t panel_words = count * kTileGroups * kBlockCols;
    const uint32_t* w = b.w + step * kTileGroups * kBlockCols;
    const uint32_t* next = step + count < steps ? w + panel_words : b.next_w;
    const int64_t lines = panel_words * 4 / kLineBytes;
    const int64_t lines_per_step = (lines + pairs * count - 1) / (pairs * count);
    for (int64_t pair = 0; pair < pairs; ++pair) {
      const int64_t first = pair * kPairRows;
      const Panel panel{b.x + first * b.x_words + step * kTileWords, kTileRows * b.x_words, w,
                        count, b.begins && step == 0};
      const Ahead ahead{(const char*)next + pair * count * lines_per_step * kLineBytes,
                        lines_per_step};
      float* const pair_sums = b.sums + first * kBlockCols;
      const bool is_tall = b.rows - first > kTileRows;
      if (!is_whole) {
        RunPair<kElement, Fetch::kSpread>(panel, ahead, is_tall, pair_sums);
      } else if (pair == 0) {
        RunPair<kElement, Fetch::kFromMemory>(panel, ahead, is_tall, pair_sums);
      } else {
        RunPair<kElement, Fetch::kFromL2>(panel, ahead, is_tall, pair_sums);
      }
    }
  }
  for (int64_t r = 0; b.ends && r < b.rows; ++r) {
    const int64_t tiles = r / kTileRows * kTileRows * kBlockCols;
    WriteRow<kElement>(b, b.sums + tiles + r % kTileRows * kGemmAmxCols, r);
  }
  _tile_release();
}

#undef ARIL_LOAD_X
#undef ARIL_DOT

}  // namespace

extern const int64_t kGemmBlockCols = kBlockCols;
extern const int64_t kGemmKMultiple = kTileGroups;

void GemmBlockBF16(const GemmBlock& block) { RunBlock<Element::kBF16>(block); }
void GemmBlockInt8(const GemmBlock& block) { RunBlock<Element::kByte>(block); }

}  // namespace aril::kernels::amx
