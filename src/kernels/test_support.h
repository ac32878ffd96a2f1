// Random operands and comparisons for the kernel tests.

#ifndef ARIL_KERNELS_TEST_SUPPORT_H_
#define ARIL_KERNELS_TEST_SUPPORT_H_

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "kernels/cpu/context.h"
#include "kernels/matrix.h"
#include "tensor/buffer.h"

namespace aril::kernels {

// Half a unit in the last place of a float32, relative.
inline constexpr double kFloatEps = 0x1p-24;
// The same of a BF16.
inline constexpr double kBf16Eps = 0x1p-9;

// A matrix that owns its memory: normal values, rounded to its dtype. Columns beyond `cols` of a
// row are poisoned with NaN, so that a kernel that reads too far is seen.
class TestMatrix {
 public:
  TestMatrix(DType dtype, int64_t rows, int64_t cols, double stddev, std::mt19937_64& random,
             int64_t padding = 3)
      : buffer_(static_cast<size_t>(rows * (cols + padding) + 1) * 4),
        view_{buffer_.data(), dtype, rows, cols, cols + padding} {
    std::normal_distribution<float> normal(0.0f, static_cast<float>(stddev));
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < cols + padding; ++c) Set(r, c, c < cols ? normal(random) : NAN);
    }
  }

  void Set(int64_t r, int64_t c, float value) {
    std::byte* row = view_.row(r);
    if (view_.dtype == DType::kF32) {
      reinterpret_cast<float*>(row)[c] = value;
    } else {
      reinterpret_cast<BF16*>(row)[c] = ToBF16(value);
    }
  }

  const Matrix& view() const { return view_; }
  MatrixView<float> floats() const {
    return {reinterpret_cast<float*>(view_.data), view_.rows, view_.cols, view_.stride};
  }

 private:
  Buffer buffer_;
  Matrix view_;
};

// The floats of a matrix, its padding too.
inline std::vector<float> Floats(const TestMatrix& matrix) {
  const MatrixView<float> view = matrix.floats();
  return {view.data, view.data + view.rows * view.stride};
}

// All instruction sets of this machine × both dtypes.
struct KernelCase {
  Isa isa;
  DType dtype;
};
inline std::vector<KernelCase> KernelCases() {
  std::vector<KernelCase> cases;
  for (const Isa isa : AvailableIsas()) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) cases.push_back({isa, dtype});
  }
  return cases;
}

inline bool BitwiseEqual(const void* a, const void* b, size_t bytes) {
  return std::memcmp(a, b, bytes) == 0;
}

}  // namespace aril::kernels

#endif  // ARIL_KERNELS_TEST_SUPPORT_H_
