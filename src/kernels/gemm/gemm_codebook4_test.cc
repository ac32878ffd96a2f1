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

void ExpectNear(CpuContext& context, const std::vector<WeightView>& parts, const TestMatrix& x,
                WeightFormat format = WeightFormat::kCodebook4) {
  ExpectProductOfGroups(context, parts, format, Codebook4GroupSize(format), x);
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

// Inputs of half a group of the other format, and of several.
TEST(GemmCodebook4, GroupsMayBeOf32) {
  std::mt19937_64 random(kGemmSeed);
  ThreadPool threads(2);
  const std::vector<std::array<int64_t, 3>> shapes = {{1, 32, 1},    {65, 96, 7},   {130, 288, 13},
                                                      {34, 2080, 4}, {20, 352, 97}, {5, 4224, 98},
                                                      {66, 160, 8},  {40, 320, 11}};
  for (const auto& [n, k, rows] : shapes) {
    // Of a group, of several, and of several rows.
    for (const int64_t block_size : {32, 96, 64, 4096}) {
      const RandomCodebook4 w(n, k, block_size, block_size == 96, random);
      for (const auto& [isa, dtype] : KernelCases()) {
        CpuContext context(threads, isa);
        ASSERT_NO_FATAL_FAILURE(ExpectNear(context, {w.view()},
                                           TestMatrix(dtype, rows, k, 3.0, random),
                                           WeightFormat::kCodebook4By32));
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
  constexpr WeightFormat kCodes = WeightFormat::kCodebook4, kBy32 = WeightFormat::kCodebook4By32;
  EXPECT_TRUE(AreCodebook4({one.view(), one.view().Rows(1, 1)}, kCodes));
  EXPECT_FALSE(AreCodebook4({one.view(), other.view()}, kCodes));
  EXPECT_FALSE(AreCodebook4({TensorView{}}, kCodes));
  const RandomCodebook4 odd_inputs(2, 96, 64, false, random), small(2, 128, 32, false, random),
      too_small(2, 128, 16, false, random);
  EXPECT_FALSE(AreCodebook4({odd_inputs.view()}, kCodes));
  EXPECT_FALSE(AreCodebook4({small.view()}, kCodes));
  EXPECT_TRUE(AreCodebook4({odd_inputs.view()}, kBy32));
  EXPECT_TRUE(AreCodebook4({small.view()}, kBy32));
  EXPECT_FALSE(AreCodebook4({too_small.view()}, kBy32));
}

TEST(GemmCodebook4, ARowIsBitwiseTheSameInEveryBatchAndWithEveryThreadCount) {
  std::mt19937_64 random(kGemmSeed);
  const RandomCodebook4 w(70, 2112, 64, false, random), by_32(70, 2080, 32, false, random);
  ExpectRowsAreTheSameInEveryBatch(w.view(), WeightFormat::kCodebook4, random);
  ExpectRowsAreTheSameInEveryBatch(by_32.view(), WeightFormat::kCodebook4By32, random);
}

// What else it would have is another float for each, which is exact beside any x.
TEST(GemmCodebook4, BesideBf16TheCodebookIsRoundedToItWhereItsProductsAreInstructions) {
  std::mt19937_64 random(kGemmSeed);
  ThreadPool threads(2);
  constexpr int64_t kN = 33, kK = 192, kRows = 8;
  const RandomCodebook4 w(kN, kK, 64, false, random);
  Codebook4View exact = w.view();
  for (float& value : exact.codebook) value *= 1.001f;
  Codebook4View rounded = exact;
  for (float& value : rounded.codebook) value = ToFloat(ToBF16(value));
  for (const auto& [isa, dtype] : KernelCases()) {
    CpuContext context(threads, isa);
    const TestMatrix x(dtype, kRows, kK, 1.0, random);
    const auto product = [&](const Codebook4View& view) {
      TestMatrix y(DType::kF32, kRows, kN, 1.0, random);
      Gemm(context, x.view(), Pack(context, {view}, WeightFormat::kCodebook4), nullptr, y.floats());
      return y;
    };
    const TestMatrix of_exact = product(exact), of_rounded = product(rounded);
    const bool has_products = isa == Isa::kAvx512 || isa == Isa::kAmx;
    EXPECT_EQ(
        BitwiseEqual(of_exact.floats().row(0), of_rounded.floats().row(0), kN * sizeof(float)),
        dtype == DType::kBF16 && has_products)
        << isa << ' ' << dtype << " seed " << kGemmSeed;
  }
}

}  // namespace
}  // namespace aril::kernels
