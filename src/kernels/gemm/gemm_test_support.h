// What tests of matrix products share.

#ifndef ARIL_KERNELS_GEMM_GEMM_TEST_SUPPORT_H_
#define ARIL_KERNELS_GEMM_GEMM_TEST_SUPPORT_H_

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "base/checked.h"
#include "gtest/gtest.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/weight_rows.h"
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

// Of weights that are not rounded, whose sums of groups have scales: |error| ≤ (k + 2 · groups + 3)
// · eps · Σ|x·w|, of a sum of k products and a bias in any order, of the sums of groups, which are
// multiplied and added (Higham, 2002, section 3.1); twice that, as the portable multiply-add rounds
// twice.
inline void ExpectProductOfGroups(CpuContext& context, const std::vector<WeightView>& parts,
                                  WeightFormat format, int64_t group_size, const TestMatrix& x) {
  const std::vector<WeightRow> rows = RowsOf(parts);
  const auto n = static_cast<int64_t>(rows.size());
  const ConstMatrix& of_x = x.view();
  const std::vector<float> bias(rows.size(), 0.25f);
  const PackedMatrix packed = Pack(context, parts, format);
  std::mt19937_64 random(kGemmSeed);
  const TestMatrix y(DType::kF32, of_x.rows, n, 1.0, random);
  Gemm(context, of_x, packed, bias.data(), y.floats());
  for (int64_t col = 0; col < n; ++col) {
    const std::vector<double> w = ValuesIn(format, rows[static_cast<size_t>(col)], {});
    for (int64_t r = 0; r < of_x.rows; ++r) {
      double expected = 0.25, magnitude = 0.25;
      for (int64_t k = 0; k < of_x.cols; ++k) {
        const double product = of_x.At(r, k) * w[static_cast<size_t>(k)];
        expected += product;
        magnitude += std::fabs(product);
      }
      const int64_t groups = CeilDiv(of_x.cols, group_size);
      const auto roundings = static_cast<double>(of_x.cols + 2 * groups + 3);
      ASSERT_NEAR(y.floats().row(r)[col], expected, roundings * 2 * kFloatEps * magnitude)
          << format << ' ' << context.isa() << ' ' << of_x.dtype << " n " << n << " k " << of_x.cols
          << " at " << r << ',' << col << " seed " << kGemmSeed;
    }
  }
  ASSERT_TRUE(std::isnan(y.floats().row(0)[n]));
}

// Among 200 rows on three threads, among few, and alone: bit by bit, with each instruction set.
inline void ExpectRowsAreTheSameInEveryBatch(const WeightView& w, WeightFormat format,
                                             std::mt19937_64& random) {
  constexpr int64_t kRows = 200;
  const int64_t n = ShapeOf(w).at(0), k = ShapeOf(w).at(1);
  for (const auto& [isa, dtype] : KernelCases()) {
    ThreadPool one(1), three(3);
    CpuContext alone(one, isa), shared(three, isa);
    const PackedMatrix packed = Pack(alone, {w}, format);
    const TestMatrix x(dtype, kRows, k, 1.0, random);
    const TestMatrix batch(DType::kF32, kRows, n, 1.0, random);
    Gemm(shared, x.view(), packed, nullptr, batch.floats());
    const auto expect_same = [&, isa = isa, dtype = dtype](int64_t first, int64_t count) {
      const TestMatrix some(DType::kF32, count, n, 1.0, random);
      Gemm(alone, x.view().Rows(first, count), packed, nullptr, some.floats());
      for (int64_t r = 0; r < count; ++r) {
        ASSERT_TRUE(BitwiseEqual(some.floats().row(r), batch.floats().row(first + r),
                                 static_cast<size_t>(n) * sizeof(float)))
            << format << ' ' << isa << ' ' << dtype << " row " << first + r << " of " << count
            << " seed " << kGemmSeed;
      }
    };
    // A tile of rows at most, two, and several.
    for (int64_t count = 1; count <= 14; ++count) ASSERT_NO_FATAL_FAILURE(expect_same(0, count));
    for (int64_t r = 0; r < kRows; ++r) ASSERT_NO_FATAL_FAILURE(expect_same(r, 1));
  }
}

}  // namespace aril::kernels

#endif  // ARIL_KERNELS_GEMM_GEMM_TEST_SUPPORT_H_
