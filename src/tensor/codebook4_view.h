// Matrices of four-bit codes to which a codebook gives numbers, as bitsandbytes has them (NF4,
// FP4), and gpt-oss (MXFP4).

#ifndef ARIL_TENSOR_CODEBOOK4_VIEW_H_
#define ARIL_TENSOR_CODEBOOK4_VIEW_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/checked.h"
#include "tensor/tensor.h"

namespace aril {

inline constexpr int kCodebook4Size = 16;
using Codebook4 = std::array<float, kCodebook4Size>;

// [rows, cols], outputs by inputs: W[r][c] = scale · codebook[q], 0 ≤ q ≤ 15. The elements of a
// module lie row after row, and block_size of them, which may be of two rows, have one scale; a row
// of the matrix is one of them. Read only; safe to read from many threads.
struct Codebook4View {
  // Scales that are bytes: codebook[byte] · scale + offset, with a scale for block_size of them.
  struct NestedScales {
    TensorView codebook;  // F32 [256]
    TensorView scales;    // F32 [blocks of scales]
    int64_t block_size = 0;
    float offset = 0;
  };

  TensorView codes;             // of the module, of any type: two to a byte
  bool low_half_first = false;  // of a byte, else the high one
  // Or F32, BF16 or F16 [the module's outputs, cols], which are rounded each time they are read: to
  // NF4, as bitsandbytes does without scales that are bytes. Then there are neither codes nor
  // scales.
  std::optional<TensorView> numbers;
  Codebook4 codebook = {};
  // F32 [blocks of the module]; or U8, nested, or else E8M0: exponents of 2, with a bias of 127
  // (OCP Microscaling Formats 1.0, section 5.4.1).
  TensorView scales;
  std::optional<NestedScales> nested;
  int64_t block_size = 0;
  int64_t first_row = 0;  // of the module's outputs, and every row_step-th from there on
  int64_t row_step = 1;
  int64_t rows = 0;
  int64_t cols = 0;

  // Of `numbers`.
  static Codebook4View Nf4Of(const TensorView& numbers);

  Shape shape() const { return {rows, cols}; }
  // Of its share of the codes, or of the numbers.
  size_t size_bytes() const {
    const auto elements = static_cast<size_t>(rows * cols);
    return numbers ? elements * SizeOf(numbers->dtype) : CeilDiv(elements, size_t{2});
  }
  Codebook4View Rows(int64_t first, int64_t count) const;

  // q of inputs [first, first + count) of a row.
  void CopyCodes(int64_t row, int64_t first, int64_t count, uint8_t* to) const;
  // Of the module.
  int64_t ElementAt(int64_t row, int64_t col) const {
    return (first_row + row * row_step) * cols + col;
  }
  int64_t BlockOf(int64_t row, int64_t col) const { return ElementAt(row, col) / block_size; }
  float Scale(int64_t block) const;
};

// As of TensorView: in float32 the product is rounded, to nearest, and BF16 is rounded from that.
void CopyAsFloat(const Codebook4View& from, int64_t first, int64_t count, float* to);

}  // namespace aril

#endif  // ARIL_TENSOR_CODEBOOK4_VIEW_H_
