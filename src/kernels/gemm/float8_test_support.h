// Matrices of FP8, as a checkpoint has them.

#ifndef ARIL_KERNELS_GEMM_FLOAT8_TEST_SUPPORT_H_
#define ARIL_KERNELS_GEMM_FLOAT8_TEST_SUPPORT_H_

#include <random>
#include <vector>

#include "base/checked.h"
#include "tensor/float8_view.h"

namespace aril::kernels {

// Random levels, each that is a number among them, of n outputs by k inputs; with scales in F32 of
// 2^-6 to 2^-4 for blocks of outputs by inputs.
class RandomFloat8 {
 public:
  RandomFloat8(int64_t n, int64_t k, int64_t block_rows, int64_t block_cols,
               std::mt19937_64& random)
      : n_(n), k_(k), block_rows_(block_rows), block_cols_(block_cols) {
    for (int64_t i = 0; i < n * k; ++i) {
      const auto bits = static_cast<uint8_t>(random());
      levels_.push_back((bits & 0x7F) == 0x7F ? uint8_t{0x80} : bits);
    }
    std::uniform_real_distribution<float> values(0x1p-6f, 0x1p-4f);
    for (int64_t i = 0; i < CeilDiv(n, block_rows) * CeilDiv(k, block_cols); ++i) {
      scales_.push_back(values(random));
    }
  }

  Float8View view() const {
    const Shape scales = {CeilDiv(n_, block_rows_), CeilDiv(k_, block_cols_)};
    return {
        .levels = {reinterpret_cast<const std::byte*>(levels_.data()), DType::kF8E4M3, {n_, k_}},
        .scales = {reinterpret_cast<const std::byte*>(scales_.data()), DType::kF32, scales},
        .block_rows = block_rows_,
        .block_cols = block_cols_};
  }

 private:
  int64_t n_, k_, block_rows_, block_cols_;
  std::vector<uint8_t> levels_;
  std::vector<float> scales_;
};

}  // namespace aril::kernels

#endif  // ARIL_KERNELS_GEMM_FLOAT8_TEST_SUPPORT_H_
