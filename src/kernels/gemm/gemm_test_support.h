// What tests of matrix products share.

#ifndef ARIL_KERNELS_GEMM_GEMM_TEST_SUPPORT_H_
#define ARIL_KERNELS_GEMM_GEMM_TEST_SUPPORT_H_

#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/test_support.h"
#include "tensor/tensor.h"

namespace aril::kernels {

inline constexpr uint64_t kGemmSeed = 11;

inline TensorView DenseView(const TestMatrix& m) {
  EXPECT_EQ(m.view().stride, m.view().cols);
  return {m.view().data, m.view().dtype, {m.view().rows, m.view().cols}};
}

struct GemmShape {
  int64_t n;
  int64_t k;
  std::vector<int64_t> rows;
};

// Blocks, tiles and passes that are full, not full and exceeded by one; the last ones cut K in
// stretches.
inline const std::vector<GemmShape> kGemmShapes = {{1, 1, {1, 7}},
                                                   {5, 7, {1, 2, 3, 5, 6, 7, 13, 96, 97}},
                                                   {64, 64, {1, 6, 16, 32, 96, 200}},
                                                   {65, 33, {1, 2, 7, 17, 33, 97}},
                                                   {172, 64, {3, 13, 49, 97, 200}},
                                                   {130, 257, {1, 2, 3, 5, 6, 7, 16, 97}},
                                                   {34, 2105, {1, 35}},
                                                   {34, 4200, {1, 35, 600}}};

}  // namespace aril::kernels

#endif  // ARIL_KERNELS_GEMM_GEMM_TEST_SUPPORT_H_
