// Matrices of codes of four bits, as a checkpoint has them.

#ifndef ARIL_KERNELS_GEMM_CODEBOOK4_TEST_SUPPORT_H_
#define ARIL_KERNELS_GEMM_CODEBOOK4_TEST_SUPPORT_H_

#include <algorithm>
#include <random>
#include <vector>

#include "base/checked.h"
#include "tensor/codebook4_view.h"

namespace aril::kernels {

// Random codes of n outputs by k inputs, of a random codebook that BF16 holds, with scales of 2^-6
// to 2^-4 for blocks of so many; of bytes, if they are nested.
class RandomCodebook4 {
 public:
  RandomCodebook4(int64_t n, int64_t k, int64_t block_size, bool is_nested, std::mt19937_64& random)
      : n_(n), k_(k), block_size_(block_size), is_nested_(is_nested) {
    for (int64_t i = 0; i < CeilDiv(n * k, int64_t{2}); ++i) {
      codes_.push_back(static_cast<uint8_t>(random()));
    }
    std::uniform_real_distribution<float> ones(-1, 1), values(0x1p-6f, 0x1p-4f);
    for (float& value : codebook_) value = ToFloat(ToBF16(ones(random)));
    for (int64_t i = 0; i < CeilDiv(n * k, block_size); ++i) {
      scales_.push_back(values(random));
      bytes_.push_back(static_cast<uint8_t>(random()));
    }
    for (int i = 0; i < 256; ++i) bytes_codebook_.push_back(ones(random));
    for (int64_t i = 0; i < CeilDiv(std::ssize(bytes_), kNestedBlock); ++i) {
      bytes_scales_.push_back(values(random) / 2);
    }
  }

  Codebook4View view() const {
    Codebook4View view{.codes = View(codes_, DType::kU8),
                       .codebook = codebook_,
                       .scales = View(scales_, DType::kF32),
                       .block_size = block_size_,
                       .rows = n_,
                       .cols = k_};
    if (is_nested_) {
      view.scales = View(bytes_, DType::kU8);
      view.nested = {.codebook = View(bytes_codebook_, DType::kF32),
                     .scales = View(bytes_scales_, DType::kF32),
                     .block_size = kNestedBlock,
                     .offset = 0x1p-5f};
    }
    return view;
  }

 private:
  static constexpr int64_t kNestedBlock = 5;

  template <typename T>
  static TensorView View(const std::vector<T>& values, DType dtype) {
    return {reinterpret_cast<const std::byte*>(values.data()), dtype, {std::ssize(values)}};
  }

  int64_t n_, k_, block_size_;
  bool is_nested_;
  std::vector<uint8_t> codes_, bytes_;
  Codebook4 codebook_ = {};
  std::vector<float> scales_, bytes_codebook_, bytes_scales_;
};

}  // namespace aril::kernels

#endif  // ARIL_KERNELS_GEMM_CODEBOOK4_TEST_SUPPORT_H_
