// What a block of a product with quantized weights computes at a time, and its rows of x. Only .cu
// files include this.

#ifndef ARIL_KERNELS_GEMM_QUANTIZED_TILE_CUDA_H_
#define ARIL_KERNELS_GEMM_QUANTIZED_TILE_CUDA_H_

#include "kernels/cuda/elements.h"
#include "kernels/cuda/groups.h"
#include "kernels/gemm/quantized_gemm_cuda.h"
#include "kernels/lora/matrix_rows_cuda.h"

namespace aril::kernels::ARIL_CUDA_TARGET {

// With so many rows a group is few, and a block has one tile of W; else two, and up to 128 rows.
constexpr int kFewRows = 32;
constexpr int kManyTiles = 2;
constexpr int kManyRows = 128;

struct QuantizedTile {
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
ARIL_DEVICE QuantizedTile TileAt(const QuantizedGemmArgs& args, const PieceOfGroup& piece) {
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
struct QuantizedInput {
  const QuantizedGemmArgs& args;
  const int32_t* inputs;
  int first_row;
  int num_rows;
  bool aligned;

  ARIL_DEVICE QuantizedInput(const QuantizedGemmArgs& all, const QuantizedTile& tile)
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

ARIL_DEVICE void StoreResult(const QuantizedGemmArgs& args, const QuantizedTile& tile, int row,
                             int col, float sum) {
  if (row >= tile.num_rows || col >= tile.num_cols) return;
  const std::byte* const w =
      tile.w + static_cast<int64_t>(col / kQuantizedCols) * args.layout.tile_bytes;
  const float scale =
      reinterpret_cast<const float*>(w + args.layout.scales_offset)[col % kQuantizedCols];
  const int64_t of_y = tile.first_row + row;
  const int of_w = tile.first_col + col;
  const int64_t of_bias = static_cast<int64_t>(tile.group) * args.layout.n + of_w;
  const float bias = args.bias == nullptr ? 0 : args.bias[of_bias];
  args.y[of_y * args.y_stride + of_w] = MultiplyAdd(scale, sum, bias);
}

}  // namespace aril::kernels::ARIL_CUDA_TARGET

#endif  // ARIL_KERNELS_GEMM_QUANTIZED_TILE_CUDA_H_
