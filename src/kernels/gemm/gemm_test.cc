#include "kernels/gemm/gemm.h"

#include "gtest/gtest.h"
#include "kernels/test_support.h"

namespace aril::kernels {
namespace {

constexpr uint64_t kSeed = 11;

TensorView DenseView(const TestMatrix& m) {
  EXPECT_EQ(m.view().stride, m.view().cols);
  return {m.view().data, m.view().dtype, {m.view().rows, m.view().cols}};
}

// |error| ≤ (k + 1) · eps · Σ|x·w| for a sum of k products in fp32 in any order (Higham, 2002,
// section 3.1); the products of BF16 values are exact in fp32.
double Bound(const ConstMatrix& x, const TestMatrix& w, int64_t r, int64_t n) {
  double magnitude = 1e-30;
  for (int64_t k = 0; k < x.cols; ++k) magnitude += std::fabs(x.At(r, k) * w.view().At(n, k));
  return static_cast<double>(x.cols + 2) * 2 * kFloatEps * magnitude;
}

TEST(Gemm, MatchesTheReferenceForAllTileShapes) {
  std::mt19937_64 random(kSeed);
  for (const auto& [isa, dtype] : KernelCases()) {
    ThreadPool threads(2);
    CpuContext context(threads, isa);
    for (const auto& [n, k] : std::vector<std::pair<int64_t, int64_t>>{
             {1, 1}, {5, 7}, {64, 64}, {65, 33}, {172, 64}, {130, 257}}) {
      const TestMatrix w(dtype, n, k, 1.0, random, 0);
      const PackedMatrix packed = Pack(context, {DenseView(w)}, dtype);
      std::vector<float> bias(static_cast<size_t>(n), 0.25f);
      for (const int64_t rows : {1, 2, 3, 5, 6, 7, 13, 96, 97, 200}) {
        const TestMatrix x(dtype, rows, k, 1.0, random);
        const TestMatrix y(DType::kF32, rows, n, 1.0, random);
        std::vector<double> expected(static_cast<size_t>(rows * n));
        const MatrixView<double> expected_view{expected.data(), rows, n, n};
        GemmRef(x.view(), DenseView(w), bias.data(), expected_view);
        Gemm(context, x.view(), packed, bias.data(), y.floats());
        for (int64_t r = 0; r < rows; ++r) {
          for (int64_t c = 0; c < n; ++c) {
            ASSERT_NEAR(y.floats().row(r)[c], expected_view.row(r)[c],
                        Bound(x.view(), w, r, c) + kFloatEps)
                << isa << " " << dtype << " n " << n << " k " << k << " rows " << rows << " at "
                << r << "," << c << " seed " << kSeed;
          }
        }
        // The columns after the last are not touched.
        ASSERT_TRUE(std::isnan(y.floats().row(0)[n]));
      }
    }
  }
}

TEST(Gemm, ARowIsBitwiseTheSameInEveryBatchAndWithEveryThreadCount) {
  std::mt19937_64 random(kSeed);
  constexpr int64_t kN = 150, kK = 333, kRows = 110;
  for (const auto& [isa, dtype] : KernelCases()) {
    ThreadPool one(1), three(3);
    CpuContext alone(one, isa), shared(three, isa);
    const TestMatrix w(dtype, kN, kK, 1.0, random, 0);
    const PackedMatrix packed = Pack(alone, {DenseView(w)}, dtype);
    const TestMatrix x(dtype, kRows, kK, 1.0, random);
    const TestMatrix batch(DType::kF32, kRows, kN, 1.0, random);
    Gemm(shared, x.view(), packed, nullptr, batch.floats());
    const TestMatrix row(DType::kF32, 1, kN, 1.0, random);
    for (int64_t r = 0; r < kRows; ++r) {
      Gemm(alone, x.view().Rows(r, 1), packed, nullptr, row.floats());
      ASSERT_TRUE(BitwiseEqual(row.floats().data, batch.floats().row(r), kN * sizeof(float)))
          << isa << " " << dtype << " row " << r;
    }
  }
}

TEST(Gemm, PacksPartsOfAnyDTypeOneBelowTheOther) {
  std::mt19937_64 random(kSeed);
  ThreadPool threads(1);
  CpuContext context(threads, AvailableIsas().back());
  const TestMatrix q(DType::kF32, 6, 32, 1.0, random, 0), k(DType::kBF16, 3, 32, 1.0, random, 0);
  const PackedMatrix packed = Pack(context, {DenseView(q), DenseView(k)}, DType::kF32);
  EXPECT_EQ(packed.n, 9);
  const TestMatrix x(DType::kF32, 1, 32, 1.0, random), y(DType::kF32, 1, 9, 1.0, random);
  Gemm(context, x.view(), packed, nullptr, y.floats());
  double expected[6 + 3];
  GemmRef(x.view(), DenseView(q), nullptr, {expected, 1, 6, 6});
  GemmRef(x.view(), DenseView(k), nullptr, {expected + 6, 1, 3, 3});
  for (int64_t c = 0; c < 9; ++c) EXPECT_NEAR(y.floats().data[c], expected[c], 1e-4);
}

}  // namespace
}  // namespace aril::kernels
