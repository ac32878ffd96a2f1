// Products with weights of four bits, rounded when they are packed or as a checkpoint has them.

#include <algorithm>

#include "gtest/gtest.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/gemm_test_support.h"
#include "kernels/gemm/int4_test_support.h"
#include "kernels/test_support.h"

namespace aril::kernels {
namespace {

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
  std::mt19937_64 random(kGemmSeed);
  ThreadPool threads(2);
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const auto& [n, k, row_counts] : kGemmShapes) {
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
                << i / n << "," << i % n << " seed " << kGemmSeed;
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
            << isa << " at " << i / n << "," << i % n << " seed " << kGemmSeed;
      }
    }
  }
}

// Of four bits that a checkpoint has, beside others that are rounded: each part is its own product.
TEST(GemmInt4, OfACheckpointIsTheProductOfItsBitsToo) {
  std::mt19937_64 random(kGemmSeed);
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
  std::mt19937_64 random(kGemmSeed);
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
  std::mt19937_64 random(kGemmSeed);
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
  std::mt19937_64 random(kGemmSeed);
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

}  // namespace
}  // namespace aril::kernels
