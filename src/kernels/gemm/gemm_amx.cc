// One block of 64 columns with Intel AMX tiles: 16 rows of x × 32 BF16 along K meet 16 columns of W
// × 32 BF16 in one instruction, which adds the products to 16 × 16 fp32 sums.
//
// x comes row-major, padded with zero rows to a multiple of 16 and with zeros along K to a multiple
// of 32. The packed layout of W is the one of the AVX-512 kernel: 16 consecutive k groups × 16
// columns are a tile as the instruction wants it, at a row stride of 256 bytes.
//
// K is walked in steps of 32 in order, whatever the number of rows; how the instruction adds within
// a step depends on the step alone. So a row's result does not depend on the batch. K is cut in
// chunks whose part of W (32 KiB) stays in L1 while all rows pass over it; the sums of a chunk wait
// in `sums`.

#include <immintrin.h>

#include "kernels/cpu/amx_tiles.h"
#include "kernels/gemm/gemm_cpu.h"

namespace aril::kernels::amx {
namespace {

constexpr int kTileRows = 16;
constexpr int kTileGroups = 16;  // k groups (BF16 pairs) of a step
constexpr int kBlockCols = 64;
constexpr int64_t kChunkSteps = 8;
constexpr long kWStrideBytes = kBlockCols * 4;
constexpr long kSumStrideBytes = kBlockCols * 4;

// A chunk of K for some rows of x and all 64 columns.
struct Chunk {
  const uint32_t* w;  // [steps · 16, 64]
  const uint32_t* x;  // first row, at this chunk's first group
  long x_stride_bytes;
  int64_t steps;
  float* sums;  // first row, [rows, 64]
  bool first;   // sums start at zero
};

// 16 rows × 64 columns: sums in tiles 0–3. W streams through once, in order: the hardware follows
// that by itself, and software prefetches only cost (12 instead of 15 GB/s of the 18 that one core
// reads).
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
    _tile_loadd(4, c.x + step * kTileGroups, c.x_stride_bytes);
    _tile_loadd(5, w, kWStrideBytes);
    _tile_dpbf16ps(0, 4, 5);
    _tile_loadd(6, w + 16, kWStrideBytes);
    _tile_dpbf16ps(1, 4, 6);
    _tile_loadd(7, w + 32, kWStrideBytes);
    _tile_dpbf16ps(2, 4, 7);
    _tile_loadd(5, w + 48, kWStrideBytes);
    _tile_dpbf16ps(3, 4, 5);
  }
  _tile_stored(0, c.sums, kSumStrideBytes);
  _tile_stored(1, c.sums + 16, kSumStrideBytes);
  _tile_stored(2, c.sums + 32, kSumStrideBytes);
  _tile_stored(3, c.sums + 48, kSumStrideBytes);
}

// 32 rows × 32 columns: every tile that is loaded serves two products.
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
  const uint32_t* lower_x = c.x + kTileRows * c.x_stride_bytes / 4;
  for (int64_t step = 0; step < c.steps; ++step) {
    const uint32_t* w = c.w + step * kTileGroups * kBlockCols + col;
    _tile_loadd(4, c.x + step * kTileGroups, c.x_stride_bytes);
    _tile_loadd(6, w, kWStrideBytes);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(7, w + 16, kWStrideBytes);
    _tile_dpbf16ps(1, 4, 7);
    _tile_loadd(5, lower_x + step * kTileGroups, c.x_stride_bytes);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, top, kSumStrideBytes);
  _tile_stored(1, top + 16, kSumStrideBytes);
  _tile_stored(2, bottom, kSumStrideBytes);
  _tile_stored(3, bottom + 16, kSumStrideBytes);
}

void WriteRow(const GemmBlock& b, const float* sums, float* y) {
  for (int64_t col = 0; col < b.cols; col += 16) {
    const int64_t left = b.cols - col;
    const __mmask16 mask = left >= 16 ? (__mmask16)0xFFFF : (__mmask16)((1u << left) - 1);
    __m512 v = _mm512_loadu_ps(sums + col);
    if (b.bias != nullptr) v = _mm512_add_ps(v, _mm512_maskz_loadu_ps(mask, b.bias + col));
    _mm512_mask_storeu_ps(y + col, mask, v);
  }
}

}  // namespace

extern const int64_t kGemmBlockCols = kBlockCols;
extern const int64_t kGemmKMultiple = kTileGroups;

void GemmBlockBF16(const GemmBlock& b) {
  ConfigureTiles();
  alignas(64) float sums[kGemmMaxPassRows * kBlockCols];
  const int64_t rows = (b.rows + kTileRows - 1) / kTileRows * kTileRows;
  const int64_t steps = b.k_groups / kTileGroups;
  for (int64_t step = 0; step < steps; step += kChunkSteps) {
    Chunk chunk{.w = b.w + step * kTileGroups * kBlockCols,
                .x = b.x + step * kTileGroups,
                .x_stride_bytes = (long)b.k_groups * 4,
                .steps = steps - step < kChunkSteps ? steps - step : kChunkSteps,
                .sums = sums,
                .first = step == 0};
    int64_t row = 0;
    for (; row + 2 * kTileRows <= rows; row += 2 * kTileRows) {
      RunRows32Cols32(chunk, 0);
      RunRows32Cols32(chunk, 32);
      chunk.x += 2 * kTileRows * b.k_groups;
      chunk.sums += 2 * kTileRows * kBlockCols;
    }
    if (row < rows) RunRows16(chunk);
  }
  _tile_release();
  for (int64_t r = 0; r < b.rows; ++r) WriteRow(b, sums + r * kBlockCols, b.y + r * b.y_stride);
}

}  // namespace aril::kernels::amx
