// Matrices of four bits, of bytes, of FP8 or of codes, as a GPU's kernel reads them
// (quantized_gemm_cuda.h).
//
// A matrix is tiles of 32 outputs, one behind the other; a tile is chunks of 32 inputs, then what
// they are multiplied with. What a matrix has not, of either, is 0.
//
// Of a chunk, lane l of a warp has outputs g, g + 8, g + 16 and g + 24, with g = l / 4, and of
// these inputs 8t … 8t + 7, with t = l % 4: those of a matrix instruction, if x lies in it
// likewise. Four bits are a word for each output: level 8t + 2i from bit 4i on, level 8t + 2i + 1
// from bit 16 + 4i on. A lane's words are neighbours, and so are lanes: 512 bytes. Bytes, each 128
// more than its level, are two words for each output; the chunk's first 512 bytes have two outputs
// of each lane, the next 512 the others. Levels of FP8 lie likewise, as they are. Codes are a word
// for each output, as levels of four bits are, but that of input 8t + i from bit 4i on: two
// neighbours are a byte.
//
// Groups of chunks have for each output, of four bits, a factor (FP16) and a zero point (a byte),
// of FP8 and of codes a factor (fp32): those of outputs g, g + 8, g + 16 and g + 24 are neighbours,
// then comes the next g. At the end of a tile each output has a scale (fp32).

#ifndef ARIL_KERNELS_GEMM_QUANTIZED_LAYOUT_H_
#define ARIL_KERNELS_GEMM_QUANTIZED_LAYOUT_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/gemm/weight_format.h"
#include "tensor/codebook4_view.h"

namespace aril::kernels {

struct WeightRow;

inline constexpr int kQuantizedCols = 32;   // outputs of a tile
inline constexpr int kQuantizedDepth = 32;  // inputs of a chunk

struct QuantizedLayout {
  WeightFormat format = WeightFormat::kInt4;  // or another that IsQuantized
  int32_t n = 0;                              // outputs
  int32_t k = 0;                              // inputs
  int32_t chunks = 0;                         // of a tile
  int32_t group_chunks = 0;                   // of a group, but for the last; of kInt8: 0
  // In a tile, in bytes.
  int32_t factors_offset = 0;  // of groups
  int32_t zeros_offset = 0;    // of kInt4
  int32_t scales_offset = 0;
  int32_t tile_bytes = 0;
  float codebook[kCodebook4Size] = {};  // of kCodebook4: what each code stands for

  int32_t tiles() const { return (n + kQuantizedCols - 1) / kQuantizedCols; }
  int64_t size_bytes() const { return int64_t{tiles()} * tile_bytes; }
};

// `group_size`: of groups, a multiple of kQuantizedDepth, or at least k. `codebook`: of kCodebook4.
QuantizedLayout MakeQuantizedLayout(WeightFormat format, int64_t n, int64_t k, int64_t group_size,
                                    const Codebook4& codebook = {});

// Writes a tile, of at most kQuantizedCols rows of a matrix, with groups of the layout's
// size or of several times it; of kInt4, in the order of `inputs` (Int4View::InputsByGroup).
void WriteQuantizedTile(const QuantizedLayout& layout, std::span<const WeightRow> rows,
                        std::span<const int32_t> inputs, std::byte* to);

}  // namespace aril::kernels

#endif  // ARIL_KERNELS_GEMM_QUANTIZED_LAYOUT_H_
