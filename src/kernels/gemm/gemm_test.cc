#include "kernels/gemm/gemm.h"

#include <algorithm>

#include "gtest/gtest.h"
#include "kernels/gemm/int4_test_support.h"
#include "kernels/test_support.h"

namespace aril::kernels {
namespace {

constexpr uint64_t kSeed = 11;

TensorView DenseView(const TestMatrix& m) {
  EXPECT_EQ(m.view().stride, m.view().cols);
  return {m.view().data, m.view().dtype, {m.view().rows, m.view().cols}};
}

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

struct Shape {
  int64_t n;
  int64_t k;
  std::vector<int64_t> rows;
};

// Blocks, tiles and passes that are full, not full and exceeded by one; the last ones cut K in
// stretches.
const std::vector<Shape> kShapes = {{1, 1, {1, 7}},
                                    {5, 7, {1, 2, 3, 5, 6, 7, 13, 96, 97}},
                                    {64, 64, {1, 6, 16, 32, 96, 200}},
                                    {65, 33, {1, 2, 7, 17, 33, 97}},
                                    {172, 64, {3, 13, 49, 97, 200}},
                                    {130, 257, {1, 2, 3, 5, 6, 7, 16, 97}},
                                    {34, 2105, {1, 35}},
                                    {34, 4200, {1, 35, 600}}};

// x, of `dtype` and magnitudes up to `x_scale`, times W kept as `weights`, with a bias. What is
// expected, which takes longest, is the same for all instruction sets.
void ExpectNearTheReference(DType dtype, WeightFormat weights, double x_scale,
                            BoundFunction bound) {
  std::mt19937_64 random(kSeed);
  ThreadPool threads(2);
  for (const auto& [n, k, row_counts] : kShapes) {
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
              << element / n << "," << element % n << " seed " << kSeed;
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
  std::mt19937_64 random(kSeed);
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
  std::mt19937_64 random(kSeed);
  std::vector<PackedMatrix> w;
  std::vector<GemmPart> parts;
  int64_t rows = 0;
  for (const int64_t count : c.counts) {
    const TestMatrix dense(dtype, c.n, c.k, 1.0, random, 0);
    w.push_back(Pack(context, {DenseView(dense)}, weights));
    parts.push_back({rows, count, nullptr});
    rows += count;
  }
  for (size_t i = 0; i < w.size(); ++i) parts[i].w = &w[i];
  const TestMatrix x(dtype, rows, c.k, 1.0, random);
  const TestMatrix y(DType::kF32, rows, c.n, 1.0, random);
  GemmParts(context, x.view(), parts, y.floats());
  for (const GemmPart& part : parts) {
    const TestMatrix alone(DType::kF32, part.num_rows, c.n, 1.0, random);
    Gemm(context, x.view().Rows(part.first_row, part.num_rows), *part.w, nullptr, alone.floats());
    for (int64_t r = 0; r < part.num_rows; ++r) {
      ASSERT_TRUE(BitwiseEqual(alone.floats().row(r), y.floats().row(part.first_row + r),
                               static_cast<size_t>(c.n) * sizeof(float)))
          << context.isa() << " " << weights << " k " << c.k << " row " << part.first_row + r
          << " seed " << kSeed;
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
  std::mt19937_64 random(kSeed);
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
  std::mt19937_64 random(kSeed);
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

TEST(GemmInt8, AddsTheLargestProductsOfTheDeepestMatrixExactly) {
  ThreadPool threads(1);
  for (const Isa isa : AvailableIsas()) {
    CpuContext context(threads, isa);
    std::vector<float> ones(static_cast<size_t>(kMaxInt8Depth), -1.0f);
    const TensorView w{
        reinterpret_cast<const std::byte*>(ones.data()), DType::kF32, {1, kMaxInt8Depth}};
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

TEST(Gemm, OfRoundedRowsZerosAreZeroAndWhatIsNotFiniteStaysSo) {
  ThreadPool threads(1);
  std::mt19937_64 random(kSeed);
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

// What the four bits of a row stand for, in doubles.
std::vector<double> Int4Values(const TestMatrix& w, int64_t n) {
  std::vector<float> row(static_cast<size_t>(w.view().cols));
  CopyAsFloat(DenseView(w), n * w.view().cols, w.view().cols, row.data());
  return Int4Row(row).Values();
}

// Of row r of x and what four bits stand for in a row of W, in doubles: the product, and how far
// the kernels may be from it. x is rounded to bytes by a group's largest magnitude over 127, sums
// of a group are exact, and groups are added in fp32, each after two more roundings (three where a
// multiply-add rounds twice).
std::pair<double, double> Int4Product(const ConstMatrix& x, int64_t r,
                                      const std::vector<double>& weights) {
  double product = 0, rounding = 0, magnitude = 0;
  for (int64_t first = 0; first < x.cols; first += kInt4GroupSize) {
    double largest = 0, of_weights = 0;
    for (int64_t k = first; k < std::min(x.cols, first + kInt4GroupSize); ++k) {
      const double a = x.At(r, k), b = weights[static_cast<size_t>(k)];
      product += a * b;
      magnitude += std::fabs(a * b);
      largest = std::max(largest, std::fabs(a));
      of_weights += std::fabs(b);
    }
    rounding += largest / 254 * of_weights;
  }
  const int64_t groups = x.cols / kInt4GroupSize + 1;
  const double roundings = static_cast<double>(groups) + 4;
  return {product, rounding * (1 + 1e-5) + roundings * 2 * kFloatEps * (magnitude + rounding + 1)};
}

TEST(GemmInt4, IsTheProductOfItsBitsButForTheRoundingOfX) {
  std::mt19937_64 random(kSeed);
  ThreadPool threads(2);
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const auto& [n, k, row_counts] : kShapes) {
      const TestMatrix w(dtype, n, k, 1.0, random, 0);
      const std::vector<float> bias(static_cast<size_t>(n), 0.25f);
      std::vector<std::vector<double>> weights;
      for (int64_t col = 0; col < n; ++col) weights.push_back(Int4Values(w, col));
      for (const int64_t rows : row_counts) {
        const TestMatrix x(dtype, rows, k, 3.0, random);
        std::vector<std::pair<double, double>> expected;
        for (int64_t i = 0; i < rows * n; ++i) {
          expected.push_back(Int4Product(x.view(), i / n, weights[static_cast<size_t>(i % n)]));
        }
        for (const Isa isa : AvailableIsas()) {
          CpuContext context(threads, isa);
          const PackedMatrix packed = Pack(context, {DenseView(w)}, WeightFormat::kInt4);
          const TestMatrix y(DType::kF32, rows, n, 1.0, random);
          Gemm(context, x.view(), packed, bias.data(), y.floats());
          for (int64_t i = 0; i < rows * n; ++i) {
            const auto& [product, bound] = expected[static_cast<size_t>(i)];
            ASSERT_NEAR(y.floats().row(i / n)[i % n], product + bias[0], bound)
                << isa << " " << dtype << " n " << n << " k " << k << " rows " << rows << " at "
                << i / n << "," << i % n << " seed " << kSeed;
          }
          ASSERT_TRUE(std::isnan(y.floats().row(0)[n]));
        }
      }
    }
  }
}

// Rows of weights in doubles.
std::vector<std::vector<double>> RowsOf(const WeightView& w) {
  const int64_t n = ShapeOf(w)[0], k = ShapeOf(w)[1];
  std::vector<std::vector<double>> rows;
  for (int64_t row = 0; row < n; ++row) {
    std::vector<float> values(static_cast<size_t>(k));
    CopyAsFloat(w, row * k, k, values.data());
    rows.emplace_back(values.begin(), values.end());
  }
  return rows;
}

// W of `parts`, which stand for `weights` in the columns of x that `inputs` says (none: as they
// are).
void ExpectInt4Products(const std::vector<WeightView>& parts,
                        std::vector<std::vector<double>> weights,
                        const std::vector<int32_t>& inputs, std::mt19937_64& random) {
  constexpr int64_t kRows = 7;
  ThreadPool threads(2);
  const auto n = static_cast<int64_t>(weights.size()), k = static_cast<int64_t>(weights[0].size());
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const TestMatrix x(dtype, kRows, k, 3.0, random);
    // Bounds are of groups that lie together.
    const TestMatrix ordered(DType::kF32, kRows, k, 1.0, random, 0);
    std::vector<std::vector<double>> of_ordered = weights;
    for (int64_t i = 0; i < k; ++i) {
      const auto from = inputs.empty() ? i : inputs[static_cast<size_t>(i)];
      for (int64_t r = 0; r < kRows; ++r) {
        ordered.floats().row(r)[i] = static_cast<float>(x.view().At(r, from));
      }
      for (size_t row = 0; row < weights.size(); ++row) {
        of_ordered[row][static_cast<size_t>(i)] = weights[row][static_cast<size_t>(from)];
      }
    }
    for (const Isa isa : AvailableIsas()) {
      CpuContext context(threads, isa);
      const PackedMatrix packed = Pack(context, parts, WeightFormat::kInt4);
      EXPECT_EQ(packed.order, inputs);
      const TestMatrix y(DType::kF32, kRows, n, 1.0, random);
      Gemm(context, x.view(), packed, nullptr, y.floats());
      for (int64_t i = 0; i < kRows * n; ++i) {
        const auto [product, bound] =
            Int4Product(ordered.view(), i / n, of_ordered[static_cast<size_t>(i % n)]);
        ASSERT_NEAR(y.floats().row(i / n)[i % n], product, bound)
            << isa << " at " << i / n << "," << i % n << " seed " << kSeed;
      }
    }
  }
}

// Of four bits that a checkpoint has, beside others that are rounded: each part is its own product.
TEST(GemmInt4, OfACheckpointIsTheProductOfItsBitsToo) {
  std::mt19937_64 random(kSeed);
  constexpr int64_t kN = 72, kDense = 9, kK = 264;
  for (const auto layout :
       {Int4View::Layout::kGptq, Int4View::Layout::kAwq, Int4View::Layout::kCompressed}) {
    const RandomInt4 quantized(layout, kN, kK, 64, DType::kF16, random);
    const TestMatrix dense(DType::kF32, kDense, kK, 1.0, random, 0);
    const Int4View part = quantized.view().Rows(3, kN - 3);
    std::vector<std::vector<double>> weights = RowsOf(part);
    for (int64_t row = 0; row < kDense; ++row) weights.push_back(Int4Values(dense, row));
    ExpectInt4Products({part, DenseView(dense)}, weights, {}, random);
  }
}

// Groups of inputs that are no neighbours: parts that have the same stay as they are.
TEST(GemmInt4, OfACheckpointTakesXGroupByGroup) {
  std::mt19937_64 random(kSeed);
  constexpr int64_t kN = 40, kK = 264;
  const std::vector<int32_t> order = RandomOrder(kK, 64, random);
  std::vector<std::vector<double>> weights;
  const RandomInt4 first(Int4View::Layout::kGptq, kN, kK, 64, DType::kF16, random);
  const RandomInt4 second(Int4View::Layout::kGptq, kN, kK, 64, DType::kBF16, random);
  std::vector<WeightView> parts;
  for (Int4View view : {first.view(), second.view()}) {
    view.order = {reinterpret_cast<const std::byte*>(order.data()), DType::kI32, {kK}};
    parts.emplace_back(view);
    const auto rows = RowsOf(view);
    weights.insert(weights.end(), rows.begin(), rows.end());
  }
  EXPECT_TRUE(AreInt4(parts));
  ExpectInt4Products(parts, weights, std::get<Int4View>(parts[0]).InputsByGroup(), random);
  parts.emplace_back(first.view());
  EXPECT_FALSE(AreInt4(parts));
}

// Parts of one call whose groups are not the same, or that have neighbours in a group.
TEST(GemmInt4, PartsTakeXInOrdersOfTheirOwn) {
  std::mt19937_64 random(kSeed);
  ThreadPool threads(2);
  CpuContext context(threads, AvailableIsas().back());
  constexpr int64_t kN = 40, kK = 264;
  std::vector<PackedMatrix> matrices;
  for (int i = 0; i < 3; ++i) {
    const RandomInt4 weights(Int4View::Layout::kGptq, kN, kK, 64, DType::kF16, random);
    const std::vector<int32_t> order = RandomOrder(kK, 64, random);
    Int4View view = weights.view();
    if (i != 1) view.order = {reinterpret_cast<const std::byte*>(order.data()), DType::kI32, {kK}};
    matrices.push_back(Pack(context, {view}, WeightFormat::kInt4));
  }
  const TestMatrix x(DType::kF32, 9, kK, 1.0, random);
  const TestMatrix together(DType::kF32, 9, kN, 1.0, random),
      alone(DType::kF32, 9, kN, 1.0, random);
  const std::vector<GemmPart> parts = {
      {0, 1, &matrices[0]}, {1, 3, &matrices[1]}, {4, 5, &matrices[2]}};
  GemmParts(context, x.view(), parts, together.floats());
  for (const GemmPart& part : parts) {
    Gemm(context, x.view().Rows(part.first_row, part.num_rows), *part.w, nullptr,
         alone.floats().Rows(part.first_row, part.num_rows));
  }
  for (int64_t r = 0; r < 9; ++r) {
    EXPECT_TRUE(BitwiseEqual(together.floats().row(r), alone.floats().row(r), kN * sizeof(float)));
  }
}

TEST(GemmInt4, ARowIsBitwiseTheSameInEveryBatchAndWithEveryThreadCount) {
  std::mt19937_64 random(kSeed);
  constexpr int64_t kN = 70, kK = 4200, kRows = 330;
  const TestMatrix w(DType::kBF16, kN, kK, 1.0, random, 0);
  const TestMatrix x(DType::kBF16, kRows, kK, 1.0, random);
  const TestMatrix batch(DType::kF32, kRows, kN, 1.0, random);
  const TestMatrix row(DType::kF32, 1, kN, 1.0, random);
  for (const Isa isa : AvailableIsas()) {
    ThreadPool one(1), three(3);
    CpuContext alone(one, isa), shared(three, isa);
    const PackedMatrix packed = Pack(alone, {DenseView(w)}, WeightFormat::kInt4);
    for (const int64_t rows : {int64_t{2}, int64_t{3}, int64_t{4}, int64_t{17}, kRows}) {
      Gemm(shared, x.view().Rows(0, rows), packed, nullptr, batch.floats().Rows(0, rows));
      for (int64_t r = 0; r < rows; ++r) {
        Gemm(alone, x.view().Rows(r, 1), packed, nullptr, row.floats());
        ASSERT_TRUE(BitwiseEqual(row.floats().data, batch.floats().row(r), kN * sizeof(float)))
            << isa << " row " << r << " of " << rows;
      }
    }
  }
}

// Sums of a group at their largest, 32 · 15 · 127: of weights of either sign (all of their zero
// point's making, or nothing of it), by either sign of x.
TEST(GemmInt4, TheLargestProductsOfAGroupAreExact) {
  ThreadPool threads(1);
  for (const float weight : {1.875f, -1.875f}) {
    const std::vector<float> weights(64, weight);
    const TensorView w{reinterpret_cast<const std::byte*>(weights.data()), DType::kF32, {1, 64}};
    for (const Isa isa : AvailableIsas()) {
      CpuContext context(threads, isa);
      const PackedMatrix packed = Pack(context, {w}, WeightFormat::kInt4);
      for (const float sign : {1.0f, -1.0f}) {
        const std::vector<float> x(64, sign * 127);
        float y = 0;
        Gemm(context, {reinterpret_cast<const std::byte*>(x.data()), DType::kF32, 1, 64, 64},
             packed, nullptr, {&y, 1, 1, 1});
        EXPECT_EQ(y, sign * 64 * 127 * weight) << isa;
      }
    }
  }
}

// Rows of which some are too small for the reciprocal of their factor, or not finite, share a batch
// with others, whose bits they do not change.
TEST(Gemm, RoundedRowsThatAreTinyOrNotFiniteChangeNoOther) {
  std::mt19937_64 random(kSeed);
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
