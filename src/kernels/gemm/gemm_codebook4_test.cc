// Products with weights of codes, as a checkpoint has them.

#include <array>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/gemm/codebook4_test_support.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/gemm_test_support.h"
#include "kernels/test_support.h"

namespace aril::kernels {
namespace {

void ExpectNear(CpuContext& context, const std::vector<WeightView>& parts, const TestMatrix& x) {
  ExpectProductOfGroups(context, parts, WeightFormat::kCodebook4, kCodebook4GroupSize, x);
}

TEST(GemmCodebook4, IsTheProductOfItsNumbers) {
  std::mt19937_64 random(kGemmSeed);
  ThreadPool threads(2);
  // Blocks of columns, tiles of each size, passes and stretches of K that are not full.
  const std::vector<std::array<int64_t, 3>> shapes = {
      {1, 64, 1},    {65, 64, 7},  {130, 256, 13}, {34, 2112, 4}, {20, 320, 97},
      {5, 4224, 98}, {40, 128, 2}, {33, 320, 3},   {70, 128, 5},  {65, 256, 6},
      {66, 128, 8},  {70, 128, 9}, {33, 256, 10},  {40, 320, 11}, {65, 192, 12}};
  for (const auto& [n, k, rows] : shapes) {
    // Of a group, of several, and of several rows.
    for (const int64_t block_size : {64, 128, 4096}) {
      const RandomCodebook4 w(n, k, block_size, block_size == 128, random);
      for (const auto& [isa, dtype] : KernelCases()) {
        CpuContext context(threads, isa);
        ASSERT_NO_FATAL_FAILURE(
            ExpectNear(context, {w.view()}, TestMatrix(dtype, rows, k, 3.0, random)));
      }
    }
  }
}

TEST(GemmCodebook4, PartsKeepTheirScales) {
  std::mt19937_64 random(kGemmSeed);
  ThreadPool threads(2);
  constexpr int64_t kK = 384;
  const RandomCodebook4 one(200, kK, 64, true, random), other(33, kK, 256, false, random);
  Codebook4View alike = other.view();
  alike.codebook = one.view().codebook;
  for (const auto& [isa, dtype] : KernelCases()) {
    CpuContext context(threads, isa);
    ASSERT_NO_FATAL_FAILURE(ExpectNear(context,
                                       {one.view().Rows(91, 70), alike, one.view().Rows(0, 5)},
                                       TestMatrix(dtype, 5, kK, 3.0, random)));
  }
}

TEST(GemmCodebook4, PartsMustHaveOneCodebookAndWholeGroups) {
  std::mt19937_64 random(kGemmSeed);
  const RandomCodebook4 one(2, 128, 64, false, random), other(2, 128, 64, false, random);
  EXPECT_TRUE(AreCodebook4({one.view(), one.view().Rows(1, 1)}));
  EXPECT_FALSE(AreCodebook4({one.view(), other.view()}));
  EXPECT_FALSE(AreCodebook4({RandomCodebook4(2, 96, 64, false, random).view()}));
  EXPECT_FALSE(AreCodebook4({RandomCodebook4(2, 128, 32, false, random).view()}));
  EXPECT_FALSE(AreCodebook4({TensorView{}}));
}

TEST(GemmCodebook4, ARowIsBitwiseTheSameInEveryBatchAndWithEveryThreadCount) {
  std::mt19937_64 random(kGemmSeed);
  const RandomCodebook4 w(70, 2112, 64, false, random);
  ExpectRowsAreTheSameInEveryBatch(w.view(), WeightFormat::kCodebook4, random);
}

// What BF16 holds is the same beside codes whichever type it comes in.
TEST(GemmCodebook4, WidensXExactly) {
  std::mt19937_64 random(kGemmSeed);
  ThreadPool threads(2);
  constexpr int64_t kN = 33, kK = 192, kRows = 8;
  const RandomCodebook4 w(kN, kK, 64, false, random);
  const TestMatrix x(DType::kBF16, kRows, kK, 1.0, random);
  const TestMatrix wide(DType::kF32, kRows, kK, 1.0, random);
  for (int64_t r = 0; r < kRows; ++r) {
    for (int64_t i = 0; i < kK; ++i) {
      wide.floats().row(r)[i] = static_cast<float>(x.view().At(r, i));
    }
  }
  for (const auto& [isa, dtype] : KernelCases()) {
    if (dtype != DType::kBF16) continue;
    CpuContext context(threads, isa);
    const PackedMatrix packed = Pack(context, {w.view()}, WeightFormat::kCodebook4);
    const TestMatrix y(DType::kF32, kRows, kN, 1.0, random),
        same(DType::kF32, kRows, kN, 1.0, random);
    Gemm(context, x.view(), packed, nullptr, y.floats());
    Gemm(context, wide.view(), packed, nullptr, same.floats());
    for (int64_t r = 0; r < kRows; ++r) {
      ASSERT_TRUE(BitwiseEqual(y.floats().row(r), same.floats().row(r), kN * sizeof(float)))
          << isa << " row " << r << " seed " << kGemmSeed;
    }
  }
}

}  // namespace
}  // namespace aril::kernels
