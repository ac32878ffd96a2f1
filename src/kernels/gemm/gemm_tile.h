// What the per-instruction-set GEMM code is called with. Plain structs only (see cpu/simd.h).

#ifndef ARIL_KERNELS_GEMM_GEMM_TILE_H_
#define ARIL_KERNELS_GEMM_GEMM_TILE_H_

#include <stdint.h>

namespace aril::kernels {

// A k group is the 4 bytes along K that one multiply-add step takes: one float, two BF16, or four
// bytes (of x unsigned, of W signed; of weights of four bits the other way around). Weights of FP8
// become floats or BF16, as x is, and so do codes; but where products of BF16 are no instruction, x
// becomes floats beside codes.

// Rows of x are packed in tiles of at most this many rows. 6 rows × 4 vectors of columns are 24
// accumulators of AVX-512's 32 registers; 6 × 2 are 12 of 16 elsewhere.
inline constexpr int64_t kGemmMaxTileRows = 6;
// Rows that share one pass over a block of W while their accumulators wait in L1 (96 × 64 floats:
// 24 KiB).
inline constexpr int64_t kGemmMaxPassRows = 96;
// K is cut in stretches of so many words of a row of x; the sums of a stretch wait for the next. A
// block of W is at most 256 KiB a stretch, a pass of x 384 KiB: both stay in L2. (Rows of a single
// pass meet a block of W once: their stretches are as long as x allows.)
inline constexpr int64_t kGemmStretchWords = 1024;
// The sums of a pass have room for a multiple of so many rows.
inline constexpr int64_t kGemmRowMultiple = 32;
// With AMX so many rows keep their sums in tiles over all of K. Of more, the sums of a pass are
// 64 KiB a block of columns. Its part of x is 1 MiB, half of L2, if that is all of K, and else
// 512 KiB: the sums that wait for the next stretch of K are in L2 as well.
inline constexpr int64_t kGemmAmxMaxWholeRows = 128;
inline constexpr int64_t kGemmAmxMaxPassRows = 512;
inline constexpr int64_t kGemmAmxWholePassWords = 256 * 1024;
inline constexpr int64_t kGemmAmxPassWords = 128 * 1024;
// An AMX tile of x is so many rows × k groups, one of W k groups × so many columns.
inline constexpr int64_t kGemmAmxRows = 16;
inline constexpr int64_t kGemmAmxGroups = 16;
inline constexpr int64_t kGemmAmxCols = 16;

// Weights of four bits: so many neighbours along K share a factor and a zero point.
inline constexpr int64_t kInt4GroupSize = 32;
// A group of x in words: its bytes, four to a word, their factor, a float, and minus their sum, an
// int16 in an int32's place.
inline constexpr int64_t kInt4XFactor = kInt4GroupSize / 4;
inline constexpr int64_t kInt4XSum = kInt4XFactor + 1;
inline constexpr int64_t kInt4XWords = kInt4XSum + 1;
// A group of a column of W in bytes: two weights to each, an FP16, and a byte.
inline constexpr int64_t kInt4GroupBytes = kInt4GroupSize / 2 + 2 + 1;

// Weights of FP8: so many neighbours along K share a scale. (A group of 64 columns is 8 KiB, and
// 16 KiB of BF16: both are in L1.)
inline constexpr int64_t kFloat8GroupSize = 128;

// Weights of codes: so many neighbours along K share a scale, which lies beside them, in one of two
// formats. (A large group of 64 columns is 2.25 KiB, and 16 KiB of floats: both are in L1.)
inline constexpr int64_t kCodebook4GroupSize = 64;
inline constexpr int64_t kCodebook4SmallGroupSize = 32;
// A group of a column of W in bytes: two codes to each, and a float.
constexpr int64_t Codebook4GroupBytes(int64_t group_size) { return group_size / 2 + 4; }

// When `rows` rows are cut into as few and as even tiles as possible: how many, and where tile
// `tile` begins.
constexpr int64_t GemmNumTiles(int64_t rows) {
  return (rows + kGemmMaxTileRows - 1) / kGemmMaxTileRows;
}
constexpr int64_t GemmTileFirstRow(int64_t rows, int64_t tile) {
  const int64_t tiles = GemmNumTiles(rows);
  return tile * (rows / tiles) + (tile < rows % tiles ? tile : rows % tiles);
}

// y[rows, cols] = x · Wᵀ (+ bias) for one block of W's rows, i.e. of y's columns, or a stretch of K
// of it.
struct GemmBlock {
  const uint32_t* w;  // both packed as the kernel wants them (GemmKernel::layout)
  const uint32_t* x;
  int64_t rows;            // ≤ kGemmMaxPassRows, or kGemmAmxMaxPassRows of tiles
  int64_t x_words;         // of a row: its k groups, and what stands between them
  const uint32_t* next_w;  // what this thread reads next of W: to be asked for
  // [rows up to a multiple of kGemmRowMultiple, block_cols] at a multiple of 64 bytes: the sums, in
  // an order of the kernel's own. They wait there between two stretches of K.
  float* sums;
  bool begins;        // else `sums` has those of the stretches before
  bool ends;          // else y is left alone
  const float* bias;  // [cols] or null
  float* y;           // row r starts at y + r * y_stride
  int64_t y_stride;
  int64_t cols;  // ≤ block_cols: the last block may be narrower
  // The factors of W's rows, [cols], of bytes and of four bits; of bytes also those of x's, [rows],
  // and the sums of W's rows.
  const float* col_scales;
  const float* row_scales;
  const int32_t* col_sums;
  // Of FP8, what is added up of a group is multiplied by: [groups, block_cols], at a distance.
  const float* group_scales;
  int64_t group_scales_stride;  // 0: all groups have the same
  // Of codes: [16], what they stand for; and [32], the same rounded to BF16, twice.
  const float* codebook;
  const uint16_t* codebook_bf16;
};

// What is added to x's bytes, which makes them unsigned, as the instructions want one operand.
inline constexpr int32_t kGemmByteOffset = 128;

// Rounds a row to bytes: out[i] = round(x[i] / *scale) + kGemmByteOffset, *scale the largest |x[i]|
// over 127. A row with a NaN or an infinity has a *scale that is not finite either.
struct QuantizeRow {
  const void* x;  // [size] floats or BF16
  int64_t size;
  uint8_t* out;
  float* scale;
};

using QuantizeRowFunction = void (*)(const QuantizeRow&);

// Rounds a row to bytes, each kInt4GroupSize with a factor of its own, as above but signed:
// kInt4XWords for each, the last filled up with zeros.
struct QuantizeGroups {
  const void* x;  // [size] floats or BF16
  int64_t size;
  uint32_t* out;
};

using QuantizeGroupsFunction = void (*)(const QuantizeGroups&);

using GemmBlockFunction = void (*)(const GemmBlock&);

// A way to run a GEMM, and the operands it wants.
struct GemmKernel {
  enum class Layout {
    kPanels,  // of x row tile after row tile, each [x_words, tile rows]; a block of W:
              // [x_words, block_cols]
    // Of x AMX tile after AMX tile: [rows / kGemmAmxRows, x_words / kGemmAmxGroups] of them, each
    // [kGemmAmxRows, kGemmAmxGroups]; the last rows are zero. (Rows of x as they are lie 4 KiB
    // apart for many a model: the rows of a tile would share one set of the cache.) A block of W:
    // [x_words / kGemmAmxGroups, block_cols / kGemmAmxCols] tiles, each [kGemmAmxGroups,
    // kGemmAmxCols], so that what a tile reads from memory is one piece of it.
    kAmxTiles,
    // Of x as kPanels. A block of W is group after group of kInt4GroupSize along K, each
    // words [kInt4GroupSize / 8, block_cols], with four weights in the low halves of their bytes
    // and the next four in the high halves; factors in FP16, [block_cols]; and zero points in
    // bytes, [block_cols].
    kNibblePanels,
    // Of x as kPanels. A block of W: [x's columns / 2, block_cols] of two bytes; of each 2 · lanes
    // columns four, then four that are so many lanes further, then the next four.
    kFloat8Panels,
    // Of x as kPanels. A block of W is group after group of group_size along K, each words
    // [group_size / 8, block_cols], of eight codes, those of even inputs in the low half
    // from the lowest bits up, the others likewise in the high half; and scales [block_cols], which
    // are floats.
    kCodebookPanels,
  };
  GemmBlockFunction run;
  int64_t block_cols;
  int64_t x_multiple;  // x_words are padded with zeros to a multiple of this
  Layout layout;
  int64_t lanes = 0;         // of kFloat8Panels
  int64_t group_size = 0;    // of kCodebookPanels
  bool widens_bf16 = false;  // x of BF16 becomes floats
};

}  // namespace aril::kernels

#endif  // ARIL_KERNELS_GEMM_GEMM_TILE_H_
