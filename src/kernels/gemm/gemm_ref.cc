#include <vector>

#include "base/check.h"
#include "kernels/gemm/gemm.h"

namespace aril::kernels {

void GemmRef(const ConstMatrix& x, const TensorView& w, const float* bias, MatrixView<double> y) {
  CHECK_EQ(w.shape.at(1), x.cols);
  CHECK_EQ(w.shape[0], y.cols);
  CHECK_EQ(x.rows, y.rows);
  std::vector<float> weights(static_cast<size_t>(x.cols));
  for (int64_t n = 0; n < y.cols; ++n) {
    CopyAsFloat(w, n * x.cols, x.cols, weights.data());
    for (int64_t r = 0; r < y.rows; ++r) {
      double sum = bias == nullptr ? 0.0 : bias[n];
      for (int64_t k = 0; k < x.cols; ++k) {
        sum += static_cast<double>(x.At(r, k)) * weights[static_cast<size_t>(k)];
      }
      y.row(r)[n] = sum;
    }
  }
}

}  // namespace aril::kernels
