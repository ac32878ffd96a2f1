#include "kernels/gemm/gemm.h"

#include <algorithm>

#include "gtest/gtest.h"
#include "kernels/gemm/gemm_test_support.h"
#include "kernels/test_support.h"

namespace aril::kernels {
namespace {

// What a result may differ from the exact one, for row r of x and row n of W.
using BoundFunction = double (*)(const ConstMatrix& x, const TestMatrix& w, int64_t r, int64_t n);

// |error| ≤ (k + 1) · eps · Σ|x·w| for a sum of k products in fp32 in any order (Higham, 2002,
// section 3.1); the products of BF16 values are exact in fp32.
double SumBound(const ConstMatrix& x, const TestMatrix& w, int64_t r, int64_t n) {
  double magnitude = 1e-30;
  for (int64_t k = 0; k < x.cols; ++k) magnitude += std::fabs(x.At(r, k) * w.view().At(n, k));
  return static_cast<double>(x.cols + 2) * 2 * kFloatEps * magnitude;
}

// |x − s·p| ≤ s / 2 for each element of a row of x, and likewise for W, with s the largest
// magnitude over 127; the integers are added exactly, and scaled with two roundings.
double ByteBound(const ConstMatrix& x, const TestMatrix& w, int64_t r, int64_t n) {
  double x_max = 0, w_max = 0, x_sum = 0, w_sum = 0;
  for (int64_t k = 0; k < x.cols; ++k) {
    const double a = std::fabs(x.At(r, k)), b = std::fabs(w.view().At(n, k));
    x_max = std::max(x_max, a);
    w_max = std::max(w_max, b);
    x_sum += a;
    w_sum += b;
  }
  const double x_error = x_max / 254, w_error = w_max / 254;
  const double rounding =
      x_error * w_sum + w_error * x_sum + static_cast<double>(x.cols) * x_error * w_error;
  return rounding * (1 + 1e-5) + 1e-5 * x_sum * w_max;
}

// x, of `dtype` and magnitudes up to `x_scale`, times W kept as `weights`, with a bias. What is
// expected, which takes longest, is the same for all instruction sets.
void ExpectNearTheReference(DType dtype, WeightFormat weights, double x_scale,
                            BoundFunction bound) {
  std::mt19937_64 random(kGemmSeed);
  ThreadPool threads(2);
  for (const auto& [n, k, row_counts] : kGemmShapes) {
    const TestMatrix w(dtype, n, k, 1.0, random, 0);
    const std::vector<float> bias(static_cast<size_t>(n), 0.25f);
    for (const int64_t rows : row_counts) {
      const TestMatrix x(dtype, rows, k, x_scale, random);
      std::vector<double> expected(static_cast<size_t>(rows * n)), bounds(expected.size());
      GemmRef(x.view(), DenseView(w), bias.data(), {expected.data(), rows, n, n});
      for (size_t i = 0; i < bounds.size(); ++i) {
        const auto element = static_cast<int64_t>(i);
        bounds[i] = bound(x.view(), w, element / n, element % n) + kFloatEps;
      }
      for (const Isa isa : AvailableIsas()) {
        CpuContext context(threads, isa);
        const PackedMatrix packed = Pack(context, {DenseView(w)}, weights);
        const TestMatrix y(DType::kF32, rows, n, 1.0, random);
        Gemm(context, x.view(), packed, bias.data(), y.floats());
        for (size_t i = 0; i < expected.size(); ++i) {
          const auto element = static_cast<int64_t>(i);
          ASSERT_NEAR(y.floats().row(element / n)[element % n], expected[i], bounds[i])
              << isa << " " << dtype << " n " << n << " k " << k << " rows " << rows << " at "
              << element / n << "," << element % n << " seed " << kGemmSeed;
        }
        // The columns after the last are not touched.
        ASSERT_TRUE(std::isnan(y.floats().row(0)[n]));
      }
    }
  }
}

TEST(Gemm, MatchesTheReferenceForAllTileShapes) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    ExpectNearTheReference(dtype, FormatOf(dtype), 1.0, SumBound);
  }
}

TEST(Gemm, ARowIsBitwiseTheSameInEveryBatchAndWithEveryThreadCount) {
  std::mt19937_64 random(kGemmSeed);
  constexpr int64_t kN = 70, kK = 2105, kRows = 600;
  for (const auto& [isa, dtype] : KernelCases()) {
    ThreadPool one(1), three(3);
    CpuContext alone(one, isa), shared(three, isa);
    const TestMatrix w(dtype, kN, kK, 1.0, random, 0);
    const PackedMatrix packed = Pack(alone, {DenseView(w)}, FormatOf(dtype));
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

struct PartsCase {
  int64_t n;
  int64_t k;
  std::vector<int64_t> counts;  // the rows of each part
};

void ExpectPartsAsAlone(CpuContext& context, DType dtype, WeightFormat weights,
                        const PartsCase& c) {
  std::mt19937_64 random(kGemmSeed);
  std::vector<PackedMatrix> w;
  std::vector<GemmPart> parts;
  int64_t rows = 0;
  for (const int64_t count : c.counts) {
    const TestMatrix dense(dtype, c.n, c.k, 1.0, random, 0);
    w.push_back(Pack(context, {DenseView(dense)}, weights));
    parts.push_back({rows, count, nullptr});
    rows += count;
  }
  // All but the first have a bias.
  const TestMatrix biases(DType::kF32, std::ssize(w), c.n, 1.0, random);
  for (size_t i = 0; i < w.size(); ++i) {
    parts[i].w = &w[i];
    if (i > 0) parts[i].bias = biases.floats().row(static_cast<int64_t>(i));
  }
  const TestMatrix x(dtype, rows, c.k, 1.0, random);
  const TestMatrix y(DType::kF32, rows, c.n, 1.0, random);
  GemmParts(context, x.view(), parts, y.floats());
  for (const GemmPart& part : parts) {
    const TestMatrix alone(DType::kF32, part.num_rows, c.n, 1.0, random);
    Gemm(context, x.view().Rows(part.first_row, part.num_rows), *part.w, part.bias, alone.floats());
    for (int64_t r = 0; r < part.num_rows; ++r) {
      ASSERT_TRUE(BitwiseEqual(alone.floats().row(r), y.floats().row(part.first_row + r),
                               static_cast<size_t>(c.n) * sizeof(float)))
          << context.isa() << " " << weights << " k " << c.k << " row " << part.first_row + r
          << " seed " << kGemmSeed;
    }
  }
  ASSERT_TRUE(std::isnan(y.floats().row(0)[c.n]));
}

// Short parts, and such whose rows and K are cut; with tasks of one block, and of several.
TEST(Gemm, PartsAreWhatTheyAreAlone) {
  ThreadPool one(1), three(3);
  for (const auto& [isa, dtype] : KernelCases()) {
    for (const WeightFormat weights : {FormatOf(dtype), WeightFormat::kInt8, WeightFormat::kInt4}) {
      CpuContext shared(three, isa), alone(one, isa);
      ExpectPartsAsAlone(shared, dtype, weights, {70, 33, {1, 7, 600, 2, 1}});
      ExpectPartsAsAlone(shared, dtype, weights, {70, 2105, {1, 7, 256, 1}});
      ExpectPartsAsAlone(alone, dtype, weights, {600, 70, {2, 1, 300, 3}});
    }
  }
}

TEST(Gemm, PacksPartsOfAnyDTypeOneBelowTheOther) {
  std::mt19937_64 random(kGemmSeed);
  ThreadPool threads(1);
  CpuContext context(threads, AvailableIsas().back());
  const TestMatrix q(DType::kF32, 6, 32, 1.0, random, 0), k(DType::kBF16, 3, 32, 1.0, random, 0);
  const PackedMatrix packed = Pack(context, {DenseView(q), DenseView(k)}, WeightFormat::kF32);
  EXPECT_EQ(packed.n, 9);
  const TestMatrix x(DType::kF32, 1, 32, 1.0, random), y(DType::kF32, 1, 9, 1.0, random);
  Gemm(context, x.view(), packed, nullptr, y.floats());
  double expected[6 + 3];
  GemmRef(x.view(), DenseView(q), nullptr, {expected, 1, 6, 6});
  GemmRef(x.view(), DenseView(k), nullptr, {expected + 6, 1, 3, 3});
  for (int64_t c = 0; c < 9; ++c) EXPECT_NEAR(y.floats().data[c], expected[c], 1e-4);
}

TEST(GemmInt8, IsWithinTheRoundingOfBothOperands) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    ExpectNearTheReference(dtype, WeightFormat::kInt8, 3.0, ByteBound);
  }
}

TEST(GemmInt8, AllInstructionSetsBatchesAndThreadCountsGiveTheSameBits) {
  std::mt19937_64 random(kGemmSeed);
  constexpr int64_t kN = 70, kK = 4200, kRows = 330;
  const TestMatrix w(DType::kBF16, kN, kK, 1.0, random, 0);
  const TestMatrix x(DType::kBF16, kRows, kK, 1.0, random);
  const TestMatrix first(DType::kF32, kRows, kN, 1.0, random);
  const TestMatrix row(DType::kF32, 1, kN, 1.0, random);
  for (const Isa isa : AvailableIsas()) {
    ThreadPool one(1), three(3);
    CpuContext alone(one, isa), shared(three, isa);
    const PackedMatrix packed = Pack(alone, {DenseView(w)}, WeightFormat::kInt8);
    if (isa == Isa::kPortable) Gemm(shared, x.view(), packed, nullptr, first.floats());
    for (int64_t r = 0; r < kRows; ++r) {
      Gemm(alone, x.view().Rows(r, 1), packed, nullptr, row.floats());
      ASSERT_TRUE(BitwiseEqual(row.floats().data, first.floats().row(r), kN * sizeof(float)))
          << isa << " row " << r;
    }
  }
}

// Of −1 as it is rounded, and as a checkpoint may have it: −128.
TEST(GemmInt8, AddsTheLargestProductsOfTheDeepestMatrixExactly) {
  ThreadPool threads(1);
  const std::vector<float> ones(static_cast<size_t>(kMaxInt8Depth), -1.0f);
  const std::vector<int8_t> least(ones.size(), -128);
  const float scale = 1.0f / 128;
  const auto view = [](const auto* values, DType dtype, Shape shape) {
    return TensorView{reinterpret_cast<const std::byte*>(values), dtype, std::move(shape)};
  };
  const WeightView cases[] = {view(ones.data(), DType::kF32, {1, kMaxInt8Depth}),
                              Int8View{view(least.data(), DType::kI8, {1, kMaxInt8Depth}),
                                       view(&scale, DType::kF32, {1, 1})}};
  for (const Isa isa : AvailableIsas()) {
    CpuContext context(threads, isa);
    for (const WeightView& w : cases) {
      const PackedMatrix packed = Pack(context, {w}, WeightFormat::kInt8);
      for (const float sign : {1.0f, -1.0f}) {
        const std::vector<float> x(ones.size(), sign);
        float y = 0;
        Gemm(context,
             {reinterpret_cast<const std::byte*>(x.data()), DType::kF32, 1, kMaxInt8Depth,
              kMaxInt8Depth},
             packed, nullptr, {&y, 1, 1, 1});
        EXPECT_NEAR(y, -sign * static_cast<float>(kMaxInt8Depth), 0.05) << isa;
      }
    }
  }
}

// Bytes that a checkpoint has, −128 among them, beside others that are rounded.
TEST(GemmInt8, OfACheckpointIsTheProductOfItsBytesButForTheRoundingOfX) {
  std::mt19937_64 random(kGemmSeed);
  constexpr int64_t kN = 37, kDense = 9, kK = 261, kRows = 7;
  std::vector<int8_t> levels(kN * kK);
  for (int8_t& level : levels) level = static_cast<int8_t>(static_cast<int>(random() % 256) - 128);
  std::vector<float> scales(kN);
  for (float& scale : scales) scale = static_cast<float>(1 + random() % 100) / 1024;
  const Int8View view = {
      .levels = {reinterpret_cast<const std::byte*>(levels.data()), DType::kI8, {kN, kK}},
      .scales = {reinterpret_cast<const std::byte*>(scales.data()), DType::kF32, {kN, 1}}};
  const TestMatrix dense(DType::kF32, kDense, kK, 1.0, random, 0);
  const TestMatrix x(DType::kBF16, kRows, kK, 3.0, random);
  ThreadPool threads(2);
  EXPECT_TRUE(AreInt8({view}));
  EXPECT_FALSE(AreInt8({view, DenseView(dense)}));
  for (const Isa isa : AvailableIsas()) {
    CpuContext context(threads, isa);
    const PackedMatrix packed = Pack(context, {view, DenseView(dense)}, WeightFormat::kInt8);
    const PackedMatrix alone = Pack(context, {DenseView(dense)}, WeightFormat::kInt8);
    const TestMatrix y(DType::kF32, kRows, kN + kDense, 1.0, random);
    const TestMatrix of_dense(DType::kF32, kRows, kDense, 1.0, random);
    Gemm(context, x.view(), packed, nullptr, y.floats());
    Gemm(context, x.view(), alone, nullptr, of_dense.floats());
    for (int64_t r = 0; r < kRows; ++r) {
      double x_max = 0;
      for (int64_t k = 0; k < kK; ++k)
        x_max = std::max<double>(x_max, std::fabs(x.view().At(r, k)));
      for (int64_t n = 0; n < kN; ++n) {
        double product = 0, magnitude = 0;
        for (int64_t k = 0; k < kK; ++k) {
          const double w = double{scales[static_cast<size_t>(n)]} * view.Row(n)[k];
          product += x.view().At(r, k) * w;
          magnitude += std::fabs(w);
        }
        // As ByteBound, of x alone; and two roundings of a float.
        const double bound = x_max / 254 * magnitude * (1 + 1e-5) + 1e-6 * x_max * magnitude;
        ASSERT_NEAR(y.floats().row(r)[n], product, bound) << isa << " row " << r << " col " << n;
      }
      ASSERT_TRUE(
          BitwiseEqual(y.floats().row(r) + kN, of_dense.floats().row(r), kDense * sizeof(float)))
          << isa;
    }
  }
}

// x of whole numbers whose factor is 1: nothing is rounded but the sum, once it is scaled.
TEST(GemmInt8, OfACheckpointIsExactForWholeNumbers) {
  std::mt19937_64 random(kGemmSeed);
  constexpr int64_t kN = 37, kK = 261;
  const auto whole = [&] { return static_cast<int>(random() % 256) - 128; };
  std::vector<int8_t> levels(kN * kK);
  for (int8_t& level : levels) level = static_cast<int8_t>(whole());
  const std::vector<float> scales(kN, 0.5f);
  const Int8View view = {
      .levels = {reinterpret_cast<const std::byte*>(levels.data()), DType::kI8, {kN, kK}},
      .scales = {reinterpret_cast<const std::byte*>(scales.data()), DType::kF32, {kN, 1}}};
  std::vector<float> x(kK);
  for (float& value : x) value = static_cast<float>(std::max(whole(), -127));
  x[5] = 127;
  ThreadPool threads(1);
  for (const Isa isa : AvailableIsas()) {
    CpuContext context(threads, isa);
    const PackedMatrix packed = Pack(context, {view}, WeightFormat::kInt8);
    std::vector<float> y(kN);
    Gemm(context, {reinterpret_cast<const std::byte*>(x.data()), DType::kF32, 1, kK, kK}, packed,
         nullptr, {y.data(), 1, kN, kN});
    for (int64_t n = 0; n < kN; ++n) {
      float sum = 0;  // of integers below 2^24
      for (size_t k = 0; k < x.size(); ++k) sum += x[k] * static_cast<float>(view.Row(n)[k]);
      ASSERT_EQ(y[static_cast<size_t>(n)], sum / 2) << isa << " col " << n;
    }
  }
}

TEST(Gemm, OfRoundedRowsZerosAreZeroAndWhatIsNotFiniteStaysSo) {
  ThreadPool threads(1);
  std::mt19937_64 random(kGemmSeed);
  const TestMatrix w(DType::kF32, 20, 40, 1.0, random, 0);
  for (const Isa isa : AvailableIsas()) {
    CpuContext context(threads, isa);
    for (const WeightFormat format : {WeightFormat::kInt8, WeightFormat::kInt4}) {
      const PackedMatrix packed = Pack(context, {DenseView(w)}, format);
      for (const DType dtype : {DType::kF32, DType::kBF16}) {
        TestMatrix x(dtype, 3, 40, 0.0, random);
        const TestMatrix y(DType::kF32, 3, 20, 1.0, random);
        x.Set(1, 39, NAN);
        x.Set(2, 0, INFINITY);
        Gemm(context, x.view(), packed, nullptr, y.floats());
        for (int64_t c = 0; c < 20; ++c) {
          EXPECT_EQ(y.floats().row(0)[c], 0) << isa << " " << format;
          EXPECT_FALSE(std::isfinite(y.floats().row(1)[c])) << isa << " " << format;
          EXPECT_FALSE(std::isfinite(y.floats().row(2)[c])) << isa << " " << format;
        }
      }
    }
  }
}

// Rows of which some are too small for the reciprocal of their factor, or not finite, share a batch
// with others, whose bits they do not change.
TEST(Gemm, RoundedRowsThatAreTinyOrNotFiniteChangeNoOther) {
  std::mt19937_64 random(kGemmSeed);
  ThreadPool threads(1);
  constexpr int64_t kN = 20, kK = 100, kRows = 5;
  const TestMatrix w(DType::kF32, kN, kK, 1.0, random, 0);
  const TestMatrix x(DType::kF32, kRows, kK, 1.0, random);
  TestMatrix changed(DType::kF32, kRows, kK, 1.0, random);
  for (int64_t r = 0; r < kRows; ++r) {
    const float tiny = r == 1 ? 1e-37f : 1;
    for (int64_t k = 0; k < kK; ++k) changed.Set(r, k, x.view().At(r, k) * tiny);
  }
  changed.Set(3, 40, NAN);
  const TestMatrix plain(DType::kF32, kRows, kN, 1.0, random);
  const TestMatrix y(DType::kF32, kRows, kN, 1.0, random);
  for (const Isa isa : AvailableIsas()) {
    CpuContext context(threads, isa);
    for (const WeightFormat format : {WeightFormat::kInt8, WeightFormat::kInt4}) {
      const PackedMatrix packed = Pack(context, {DenseView(w)}, format);
      Gemm(context, x.view(), packed, nullptr, plain.floats());
      Gemm(context, changed.view(), packed, nullptr, y.floats());
      for (const int64_t r : {0, 2, 4}) {
        EXPECT_TRUE(BitwiseEqual(y.floats().row(r), plain.floats().row(r), kN * sizeof(float)))
            << isa << " " << format << " row " << r;
      }
      for (int64_t n = 0; n < kN; ++n) {
        EXPECT_NEAR(y.floats().row(1)[n], 0, 1e-34) << isa << " " << format;
        EXPECT_TRUE(std::isnan(y.floats().row(3)[n])) << isa << " " << format;
      }
    }
  }
}

}  // namespace
}  // namespace aril::kernels
