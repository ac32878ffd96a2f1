#include "kernels/lora/lora.h"

namespace aril::kernels {
namespace {

double Element(const LoraMatrix& matrix, DType dtype, int64_t row, int64_t col) {
  for (const MatrixRun& run : matrix.runs) {
    if (row < run.first_row || row >= run.first_row + run.num_rows) continue;
    const std::byte* data = run.data + (row - run.first_row) * matrix.row_stride_bytes;
    return dtype == DType::kF32 ? reinterpret_cast<const float*>(data)[col]
                                : ToFloat(reinterpret_cast<const BF16*>(data)[col]);
  }
  CHECK(false);
}

void AddOne(const ConstMatrix& x, const LoraCall& call, const LoraWeights& weights, float weight,
            const LoraTarget& target, int64_t row, MatrixView<double> y) {
  for (int64_t rank = 0; rank < weights.rank; ++rank) {
    double v = 0;
    for (int64_t i = 0; i < x.cols; ++i) {
      v += static_cast<double>(x.At(row, i)) * Element(weights.a, call.dtype, rank, i);
    }
    for (int64_t o = 0; o < target.out; ++o) {
      y.row(row)[target.first_col + o] +=
          static_cast<double>(weight) * weights.scale * v * Element(weights.b, call.dtype, rank, o);
    }
  }
  if (weights.gain.runs.empty()) return;
  for (int64_t o = 0; o < target.out; ++o) {
    const double gain =
        Element(weights.gain, call.dtype, 0, o) + Element(weights.gain, call.dtype, 1, o);
    const double bias = target.bias == nullptr ? 0 : target.bias[o];
    double& value = y.row(row)[target.first_col + o];
    value = bias + gain * (value - bias);
  }
}

}  // namespace

void LoraRef(const ConstMatrix& x, const LoraCall& call, MatrixView<double> y) {
  for (const LoraSegment& segment : call.segments) {
    for (size_t t = 0; t < call.targets.size(); ++t) {
      for (int64_t r = 0; r < segment.num_rows; ++r) {
        AddOne(x, call, segment.targets[t], segment.weight, call.targets[t], segment.first_row + r,
               y);
      }
    }
  }
}

}  // namespace aril::kernels
