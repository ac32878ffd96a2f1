// Products with weights of FP8, as a checkpoint has them.

#include <array>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/gemm/float8_test_support.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/gemm_test_support.h"
#include "kernels/test_support.h"

namespace aril::kernels {
namespace {

// Scales of all, of each output, of a checkpoint's usual blocks, of each output's groups, and of
// several of them.
struct Blocks {
  int64_t rows;
  int64_t cols;
};
constexpr int64_t kAll = 1 << 20;
constexpr Blocks kBlocks[] = {{kAll, kAll}, {1, kAll}, {128, 128}, {1, 128}, {3, 256}};

void ExpectNear(CpuContext& context, const std::vector<WeightView>& parts, const TestMatrix& x) {
  ExpectProductOfGroups(context, parts, WeightFormat::kFloat8, kFloat8GroupSize, x);
}

TEST(GemmFloat8, IsTheProductOfItsNumbers) {
  std::mt19937_64 random(kGemmSeed);
  ThreadPool threads(2);
  // Blocks of columns, tiles of each size, passes, groups and stretches of K that are not full.
  const std::vector<std::array<int64_t, 3>> shapes = {
      {1, 1, 1},     {65, 33, 7},  {130, 257, 13}, {34, 2105, 4}, {20, 300, 97},
      {5, 4200, 98}, {40, 130, 2}, {33, 300, 3},   {70, 140, 5},  {65, 260, 6},
      {66, 130, 8},  {70, 140, 9}, {33, 260, 10},  {40, 300, 11}, {65, 150, 12}};
  for (const auto& [n, k, rows] : shapes) {
    for (const Blocks& blocks : kBlocks) {
      const RandomFloat8 w(n, k, blocks.rows, blocks.cols, random);
      for (const auto& [isa, dtype] : KernelCases()) {
        CpuContext context(threads, isa);
        ASSERT_NO_FATAL_FAILURE(
            ExpectNear(context, {w.view()}, TestMatrix(dtype, rows, k, 3.0, random)));
      }
    }
  }
}

// Parts of a matrix, whose blocks go on where it is cut, and others with other scales.
TEST(GemmFloat8, PartsKeepTheirScales) {
  std::mt19937_64 random(kGemmSeed);
  ThreadPool threads(2);
  constexpr int64_t kK = 384;
  const RandomFloat8 blocks(200, kK, 128, 128, random), rows(33, kK, 1, kAll, random);
  for (const auto& [isa, dtype] : KernelCases()) {
    CpuContext context(threads, isa);
    ASSERT_NO_FATAL_FAILURE(
        ExpectNear(context, {blocks.view().Rows(90, 70), rows.view(), blocks.view().Rows(0, 5)},
                   TestMatrix(dtype, 5, kK, 3.0, random)));
  }
}

// Parts of different scales, each with matrices whose K is cut.
TEST(GemmFloat8, EachPartHasItsMatrix) {
  std::mt19937_64 random(kGemmSeed);
  ThreadPool threads(2);
  constexpr int64_t kN = 70, kK = 2105;
  constexpr std::array<int64_t, 4> kCounts = {1, 7, 130, 1};
  constexpr std::array<Blocks, 4> kOfParts = {{{128, 128}, {kAll, kAll}, {1, 256}, {1, kAll}}};
  for (const auto& [isa, dtype] : KernelCases()) {
    CpuContext context(threads, isa);
    std::vector<PackedMatrix> w;
    std::vector<GemmPart> parts;
    int64_t rows = 0;
    for (size_t i = 0; i < kCounts.size(); ++i) {
      const RandomFloat8 matrix(kN, kK, kOfParts[i].rows, kOfParts[i].cols, random);
      w.push_back(Pack(context, {matrix.view()}, WeightFormat::kFloat8));
      parts.push_back({rows, kCounts[i], nullptr});
      rows += kCounts[i];
    }
    for (size_t i = 0; i < w.size(); ++i) parts[i].w = &w[i];
    const TestMatrix x(dtype, rows, kK, 1.0, random);
    const TestMatrix y(DType::kF32, rows, kN, 1.0, random), row(DType::kF32, 1, kN, 1.0, random);
    GemmParts(context, x.view(), parts, y.floats());
    for (const GemmPart& part : parts) {
      for (int64_t r = part.first_row; r < part.first_row + part.num_rows; ++r) {
        Gemm(context, x.view().Rows(r, 1), *part.w, nullptr, row.floats());
        ASSERT_TRUE(BitwiseEqual(row.floats().data, y.floats().row(r), kN * sizeof(float)))
            << isa << " " << dtype << " row " << r << " seed " << kGemmSeed;
      }
    }
  }
}

TEST(GemmFloat8, ARowIsBitwiseTheSameInEveryBatchAndWithEveryThreadCount) {
  std::mt19937_64 random(kGemmSeed);
  const RandomFloat8 w(70, 2105, 128, 128, random);
  ExpectRowsAreTheSameInEveryBatch(w.view(), WeightFormat::kFloat8, random);
}

// Each level by itself, the smallest and the largest among them.
TEST(GemmFloat8, EveryLevelIsExact) {
  std::vector<uint8_t> levels;
  for (int bits = 0; bits < 256; ++bits) {
    if ((bits & 0x7F) != 0x7F) levels.push_back(static_cast<uint8_t>(bits));
  }
  const std::vector<float> scale = {0x1p-3f};
  const auto n = std::ssize(levels);
  const Float8View view{
      .levels = {reinterpret_cast<const std::byte*>(levels.data()), DType::kF8E4M3, {n, 1}},
      .scales = {reinterpret_cast<const std::byte*>(scale.data()), DType::kF32, {1}},
      .block_rows = n,
      .block_cols = 1};
  ThreadPool threads(1);
  std::mt19937_64 random(kGemmSeed);
  for (const auto& [isa, dtype] : KernelCases()) {
    CpuContext context(threads, isa);
    const TestMatrix x(dtype, 1, 1, 1.0, random), y(DType::kF32, 1, n, 1.0, random);
    Gemm(context, x.view(), Pack(context, {view}, WeightFormat::kFloat8), nullptr, y.floats());
    for (int64_t i = 0; i < n; ++i) {
      const F8E4M3 level{levels[static_cast<size_t>(i)]};
      ASSERT_EQ(y.floats().row(0)[i],
                static_cast<float>(x.view().At(0, 0) * 0x1p-3 * ToFloat(level)))
          << isa << " " << dtype << " level " << int{level.bits};
    }
  }
}

}  // namespace
}  // namespace aril::kernels
