// Matrices of four bits, as the checkpoints of GPTQ, AWQ and compressed-tensors have them.

#ifndef ARIL_TENSOR_INT4_VIEW_H_
#define ARIL_TENSOR_INT4_VIEW_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tensor/tensor.h"

namespace aril {

// [rows, cols], outputs by inputs: W[r][c] = scale · (q − zero), 0 ≤ q ≤ 15. The inputs of a group,
// group_size of them, have a scale and a zero point for each output. Read only; safe to read from
// many threads.
struct Int4View {
  // How a module of n outputs and k inputs lies in its tensors. Eight of four bits are an int32,
  // from its lowest bits up; `groups` are those of a row.
  enum class Layout : uint8_t {
    kGptq,  // words [k / 8, n], of eight inputs; scales [groups, n]; zeros [groups, n / 8]
    // words [k, n / 8], of the outputs 0 2 4 6 1 3 5 7 of eight; scales [groups, n]; zeros
    // [groups, n / 8], in that order as well
    kAwq,
    kCompressed,  // words [n, k / 8], of eight inputs; scales [n, groups]; zeros [n / 8, groups]
  };

  Layout layout = Layout::kGptq;
  TensorView words;   // I32
  TensorView scales;  // F32, BF16 or F16
  TensorView zeros;   // I32; or, of kCompressed, I8 [n, groups], which are 8 less; or none: all 8
  uint32_t zero_addend = 0;  // is added to each I32 of `zeros`, without its carry
  // I32 or I64 [cols], the group of each input (GPTQ's activation order); none: neighbours are one.
  TensorView order;
  int64_t group_size = 0;
  int64_t first_row = 0;  // of the module's outputs
  int64_t rows = 0;
  int64_t cols = 0;

  Shape shape() const { return {rows, cols}; }
  int64_t groups() const { return (cols + group_size - 1) / group_size; }
  int64_t GroupOf(int64_t col) const;
  // Of so many inputs: group_size, or what is left for the last.
  int64_t GroupSize(int64_t group) const;
  // The inputs group by group, each in their order; empty if neighbours are a group.
  std::vector<int32_t> InputsByGroup() const;
  bool HasSameGroupsAs(const Int4View& other) const;
  size_t size_bytes() const;  // of its share of the words
  Int4View Rows(int64_t first, int64_t count) const;

  // q of inputs [first, first + count) of a row.
  void CopyLevels(int64_t row, int64_t first, int64_t count, uint8_t* to) const;
  float Scale(int64_t row, int64_t group) const;
  int Zero(int64_t row, int64_t group) const;
};

// As of TensorView: float32 holds the values exactly for scales of 16 bits. BF16 is rounded.
void CopyAsFloat(const Int4View& from, int64_t first, int64_t count, float* to);

}  // namespace aril

#endif  // ARIL_TENSOR_INT4_VIEW_H_
