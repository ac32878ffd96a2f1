// Products with matrices of four bits, of bytes, of FP8 and of codes, in the emulator and on a GPU,
// against sums in double of what their levels stand for.

#include "kernels/gemm/quantized_gemm_cuda.h"

#include <cmath>
#include <numeric>

#include "gtest/gtest.h"
#include "kernels/cuda/test_support.h"
#include "kernels/gemm/codebook4_test_support.h"
#include "kernels/gemm/float8_test_support.h"
#include "kernels/gemm/gemm_test_support.h"
#include "kernels/gemm/int4_test_support.h"
#include "kernels/gemm/weight_rows.h"

namespace aril::kernels {
namespace {

constexpr uint64_t kSeed = 47;
constexpr float kUntouched = 12345;

// A group's matrix, as the kernel reads it, and what it stands for.
struct Matrix {
  Matrix(const WeightView& w, WeightFormat format, int64_t group_size) {
    const std::vector<WeightView> parts = {w};
    const Shape shape = ShapeOf(w);
    const auto* const codes = std::get_if<Codebook4View>(&w);
    layout = MakeQuantizedLayout(format, shape[0], shape[1], group_size,
                                 codes != nullptr ? codes->codebook : Codebook4());
    if (const auto* const int4 = std::get_if<Int4View>(&w)) inputs = int4->InputsByGroup();
    tiles.resize(static_cast<size_t>(layout.size_bytes()));
    const std::vector<WeightRow> rows = RowsOf(parts);
    for (int32_t tile = 0; tile < layout.tiles(); ++tile) {
      const size_t first = static_cast<size_t>(tile) * kQuantizedCols;
      const size_t count = std::min<size_t>(kQuantizedCols, rows.size() - first);
      WriteQuantizedTile(layout, std::span(rows).subspan(first, count), inputs,
                         tiles.data() + static_cast<size_t>(tile) * layout.tile_bytes);
    }
    for (const WeightRow& row : rows) values.push_back(ValuesOf(row));
  }

  // Of a row, in the order of the columns of x.
  std::vector<double> ValuesOf(const WeightRow& row) const {
    std::vector<double> of_inputs = ValuesIn(layout.format, row, inputs);
    if (inputs.empty()) return of_inputs;
    std::vector<double> in_order(of_inputs.size());
    for (size_t i = 0; i < of_inputs.size(); ++i)
      in_order[static_cast<size_t>(inputs[i])] = of_inputs[i];
    return in_order;
  }

  QuantizedLayout layout;
  std::vector<int32_t> inputs;  // empty: in order
  std::vector<std::byte> tiles;
  std::vector<std::vector<double>> values;  // [n][k]
};

struct Call {
  std::vector<int32_t> sizes;  // of groups, one for each matrix; empty: all rows of x, one matrix
  std::vector<int32_t> x_rows;
  std::vector<float> bias;  // of each matrix's outputs

  int32_t num_rows(const TestMatrix& x) const {
    if (sizes.empty()) return static_cast<int32_t>(x.view().rows);
    return std::accumulate(sizes.begin(), sizes.end(), 0);
  }
};

// y [rows + 1, n], of which the last row is in no group.
std::vector<float> Product(CudaDevice& device, const TestMatrix& x, TestDType dtype,
                           const std::vector<Matrix>& matrices, const Call& call) {
  const QuantizedLayout& layout = matrices.front().layout;
  const int32_t rows = call.num_rows(x);
  std::vector<std::byte> w;
  std::vector<int32_t> inputs, first_rows = {0};
  for (const Matrix& matrix : matrices) {
    w.insert(w.end(), matrix.tiles.begin(), matrix.tiles.end());
    inputs.insert(inputs.end(), matrix.inputs.begin(), matrix.inputs.end());
  }
  for (const int32_t size : call.sizes) first_rows.push_back(first_rows.back() + size);
  const auto elements = static_cast<size_t>(x.view().rows * x.view().cols);
  const DeviceBuffer device_x =
      Upload(device, ToDeviceDType(x.view().data, elements * SizeOf(dtype.host), dtype));
  const DeviceBuffer device_w = Upload(device, w);
  const auto upload = [&](const auto& values) {
    return values.empty() ? DeviceBuffer() : Upload(device, values);
  };
  const DeviceBuffer device_inputs = upload(inputs), x_rows = upload(call.x_rows),
                     bias = upload(call.bias), groups = Upload(device, first_rows);
  const DeviceBuffer y =
      Upload(device, std::vector<float>(static_cast<size_t>((rows + 1) * layout.n), kUntouched));
  Require(device.Check(device.kernels().quantized_gemm(
                           device.context(), dtype.device,
                           {.rows = rows,
                            .first_rows = call.sizes.empty() ? nullptr : groups.as<int32_t>(),
                            .x_rows = x_rows.as<int32_t>(),
                            .x = device_x.data(),
                            .x_stride = x.view().cols,
                            .inputs = device_inputs.as<int32_t>(),
                            .w = device_w.data(),
                            .layout = layout,
                            .groups = static_cast<int32_t>(matrices.size()),
                            .bias = bias.as<float>(),
                            .y = y.as<float>(),
                            .y_stride = layout.n}),
                       "product"));
  return Download<float>(device, y);
}

TestMatrix RandomInput(int64_t rows, int64_t k, TestDType dtype, std::mt19937_64& random) {
  TestMatrix x(dtype.host, rows, k, 1.0, random, 0);
  RoundTo(dtype.device, x);
  return x;
}

class CudaQuantizedGemm : public CudaTest {
 protected:
  void ExpectSums(const TestMatrix& x, TestDType dtype, const std::vector<Matrix>& matrices,
                  const Call& call) {
    std::vector<float> result;
    for (const auto& device : devices()) {
      const std::vector<float> y = Product(*device, x, dtype, matrices, call);
      if (result.empty()) result = y;
      ASSERT_TRUE(BitwiseEqual(y.data(), result.data(), y.size() * sizeof(float)))
          << "two runs differ, seed " << kSeed;
    }
    const QuantizedLayout& layout = matrices.front().layout;
    const std::vector<int32_t> sizes =
        call.sizes.empty() ? std::vector<int32_t>{call.num_rows(x)} : call.sizes;
    size_t at = 0;
    int32_t row = 0;
    for (size_t group = 0; group < matrices.size(); ++group) {
      for (int32_t i = 0; i < sizes[group]; ++i, ++row) {
        const int64_t x_row = call.x_rows.empty() ? row : call.x_rows[static_cast<size_t>(row)];
        for (int32_t col = 0; col < layout.n; ++col) {
          const auto& values = matrices[group].values[static_cast<size_t>(col)];
          const size_t of_bias = group * static_cast<size_t>(layout.n) + static_cast<size_t>(col);
          const double bias = call.bias.empty() ? 0 : call.bias[of_bias];
          double sum = bias, magnitude = std::abs(bias);
          for (int32_t k = 0; k < layout.k; ++k) {
            const double product = double{x.view().At(x_row, k)} * values[static_cast<size_t>(k)];
            sum += product;
            magnitude += std::abs(product);
          }
          // An error for each addition of products, of which a tensor core's is twice a rounding;
          // and for those of groups and slices, of which there are fewer than 2 k / 32 + 9.
          const double additions = 2.0 * layout.k + layout.k / 16.0 + 9;
          ASSERT_NEAR(result[at++], sum, additions * kFloatEps * magnitude)
              << dtype.device << ' ' << layout.format << " n " << layout.n << " k " << layout.k
              << " at " << row << ',' << col << " seed " << kSeed;
        }
      }
    }
    for (; at < result.size(); ++at) ASSERT_EQ(result[at], kUntouched);
  }
};

// Columns of part of a tile and of several, of few and of many rows at once; k of part of a chunk,
// of fewer chunks than slices, and of many; groups of all sizes; few rows and many.
TEST_P(CudaQuantizedGemm, MatchesSumsInDouble) {
  std::mt19937_64 random(kSeed);
  struct Case {
    int64_t n, k, group_size;
  };
  for (const TestDType dtype : kDTypes) {
    for (const auto& [n, k, group_size] : {Case{8, 24, 32},
                                           {40, 64, 64},
                                           {104, 360, 32},
                                           {24, 96, 32},
                                           {72, 640, 128},
                                           {32, 320, 320},
                                           {8, 2624, 128}}) {
      for (const int64_t rows : {1, 9, 33, 130}) {
        const TestMatrix x = RandomInput(rows, k, dtype, random);
        Call call;
        for (int64_t i = 0; i < n; ++i) call.bias.push_back(static_cast<float>(random() % 7) - 3);
        const RandomInt4 int4(Int4View::Layout::kGptq, n, k, group_size, DType::kBF16, random);
        ASSERT_NO_FATAL_FAILURE(
            ExpectSums(x, dtype, {{int4.view(), WeightFormat::kInt4, group_size}}, call));
        const TestMatrix numbers(DType::kF32, n, k, 1.0, random, 0);
        ASSERT_NO_FATAL_FAILURE(
            ExpectSums(x, dtype, {{DenseView(numbers), WeightFormat::kInt8, 0}}, call));
        const RandomFloat8 float8(n, k, /*block_rows=*/24, group_size, random);
        ASSERT_NO_FATAL_FAILURE(
            ExpectSums(x, dtype, {{float8.view(), WeightFormat::kFloat8, group_size}}, call));
        // Blocks go on in the next row.
        const int64_t of_a_row = std::gcd(group_size, k);
        if (of_a_row % kQuantizedDepth != 0) continue;
        const RandomCodebook4 codes(n, k, group_size, /*is_nested=*/false, random);
        ASSERT_NO_FATAL_FAILURE(
            ExpectSums(x, dtype, {{codes.view(), WeightFormat::kCodebook4, of_a_row}}, call));
      }
    }
  }
}

// A layout's groups, of which a matrix has some together.
TEST_P(CudaQuantizedGemm, BlocksOfFp8MayBeLongerThanGroups) {
  std::mt19937_64 random(kSeed);
  constexpr int64_t kCols = 40, kDepth = 600, kGroupSize = 128;
  for (const TestDType dtype : kDTypes) {
    const TestMatrix x = RandomInput(42, kDepth, dtype, random);
    std::vector<Matrix> matrices;
    for (const int64_t block_cols : {kGroupSize, 2 * kGroupSize, kDepth}) {
      const RandomFloat8 float8(kCols, kDepth, /*block_rows=*/16, block_cols, random);
      matrices.emplace_back(float8.view(), WeightFormat::kFloat8, kGroupSize);
    }
    ASSERT_NO_FATAL_FAILURE(ExpectSums(x, dtype, matrices, {.sizes = {2, 3, 37}}));
  }
}

// Each by itself: of them, the smallest are subnormal in FP16's and BF16's places.
TEST_P(CudaQuantizedGemm, EveryLevelOfFp8IsExact) {
  std::mt19937_64 random(kSeed);
  std::vector<uint8_t> levels;
  for (int bits = 0; bits < 256; ++bits) {
    if ((bits & 0x7F) != 0x7F) levels.push_back(static_cast<uint8_t>(bits));
  }
  const std::vector<float> one = {1};
  const auto n = std::ssize(levels);
  const Float8View view{
      .levels = {reinterpret_cast<const std::byte*>(levels.data()), DType::kF8E4M3, {n, 1}},
      .scales = {reinterpret_cast<const std::byte*>(one.data()), DType::kF32, {1}},
      .block_rows = n,
      .block_cols = 1};
  for (const TestDType dtype : kDTypes) {
    for (const int64_t rows : {1, 9, 33}) {
      const TestMatrix x = RandomInput(rows, 1, dtype, random);
      for (const auto& device : devices()) {
        const std::vector<float> y =
            Product(*device, x, dtype, {{view, WeightFormat::kFloat8, 1}}, {});
        for (int64_t i = 0; i < rows * n; ++i) {
          const F8E4M3 level{levels[static_cast<size_t>(i % n)]};
          ASSERT_EQ(y[static_cast<size_t>(i)],
                    static_cast<float>(x.view().At(i / n, 0) * ToFloat(level)))
              << dtype.device << " level " << int{level.bits} << " seed " << kSeed;
        }
      }
    }
  }
}

TEST_P(CudaQuantizedGemm, RoundsNumbersToFourBits) {
  std::mt19937_64 random(kSeed);
  for (const TestDType dtype : kDTypes) {
    const TestMatrix x = RandomInput(3, 100, dtype, random);
    const TestMatrix numbers(DType::kF32, 70, 100, 1.0, random, 0);
    ASSERT_NO_FATAL_FAILURE(
        ExpectSums(x, dtype, {{DenseView(numbers), WeightFormat::kInt4, kInt4GroupSize}}, {}));
  }
}

// Each by itself, in both halves of a byte.
TEST_P(CudaQuantizedGemm, CodesStandForTheirNumbersRoundedToTheType) {
  std::mt19937_64 random(kSeed);
  constexpr int64_t kDepth = kCodebook4GroupSize;
  std::vector<uint8_t> codes;
  for (int byte = 0; byte < 256; ++byte) {
    codes.push_back(static_cast<uint8_t>(byte));
    codes.resize(codes.size() + kDepth / 2 - 1);
  }
  std::vector<float> scales;
  for (int i = 0; i < 256; ++i) scales.push_back(static_cast<float>(i + 1));
  Codebook4View view{
      .codes = {reinterpret_cast<const std::byte*>(codes.data()), DType::kU8, {std::ssize(codes)}},
      .scales = {reinterpret_cast<const std::byte*>(scales.data()), DType::kF32, {256}},
      .block_size = kDepth,
      .rows = 256,
      .cols = kDepth};
  std::normal_distribution<float> normal;
  for (float& number : view.codebook) number = normal(random);
  const Matrix matrix(view, WeightFormat::kCodebook4, kDepth);
  for (const TestDType dtype : kDTypes) {
    for (const int64_t rows : {1, 9, 33}) {
      for (const int64_t half : {0, 1}) {
        TestMatrix x(dtype.host, rows, kDepth, 1.0, random, 0);
        for (int64_t row = 0; row < rows; ++row) {
          for (int64_t k = 0; k < kDepth; ++k) x.Set(row, k, k == half ? 1 : 0);
        }
        for (const auto& device : devices()) {
          const std::vector<float> y = Product(*device, x, dtype, {matrix}, {});
          for (int64_t i = 0; i < rows * 256; ++i) {
            const auto byte = static_cast<uint8_t>(i % 256);
            float number = view.codebook[half == 0 ? byte >> 4 : byte & 15];
            if (dtype.device == DType::kBF16) number = ToFloat(ToBF16(number));
            if (dtype.device == DType::kF16) number = ToFloat(ToF16(number));
            ASSERT_EQ(y[static_cast<size_t>(i)], number * scales[byte])
                << dtype.device << " byte " << int{byte} << " rows " << rows << " seed " << kSeed;
          }
        }
      }
    }
  }
}

// Experts: groups of no rows, of few and of many, whose rows of x are listed; some orders of
// inputs.
TEST_P(CudaQuantizedGemm, GroupsHaveMatricesAndOrdersOfTheirOwn) {
  std::mt19937_64 random(kSeed);
  constexpr int64_t kRows = 17, kCols = 72, kDepth = 192, kGroupSize = 64;
  Call call{.sizes = {0, 1, 40, 9, 0, 130}};
  for (int32_t row = 0; row < std::accumulate(call.sizes.begin(), call.sizes.end(), 0); ++row) {
    call.x_rows.push_back(static_cast<int32_t>(random() % kRows));
  }
  for (const TestDType dtype : kDTypes) {
    for (const bool has_order : {false, true}) {
      const TestMatrix x = RandomInput(kRows, kDepth, dtype, random);
      std::vector<Matrix> of_four_bits, of_bytes, of_floats, of_codes;
      const Codebook4 codebook =
          RandomCodebook4(1, kDepth, kGroupSize, false, random).view().codebook;
      for (size_t i = 0; i < call.sizes.size(); ++i) {
        const RandomInt4 int4(Int4View::Layout::kGptq, kCols, kDepth, kGroupSize, DType::kF16,
                              random);
        Int4View view = int4.view();
        const std::vector<int32_t> order = RandomOrder(kDepth, kGroupSize, random);
        if (has_order) {
          view.order = {reinterpret_cast<const std::byte*>(order.data()), DType::kI32, {kDepth}};
        }
        of_four_bits.emplace_back(view, WeightFormat::kInt4, kGroupSize);
        const TestMatrix numbers(DType::kF32, kCols, kDepth, 1.0, random, 0);
        of_bytes.emplace_back(DenseView(numbers), WeightFormat::kInt8, 0);
        const RandomFloat8 float8(kCols, kDepth, 1, kDepth, random);
        of_floats.emplace_back(float8.view(), WeightFormat::kFloat8, kDepth);
        const RandomCodebook4 codes(kCols, kDepth, kGroupSize, /*is_nested=*/true, random);
        Codebook4View of_same_codebook = codes.view();
        of_same_codebook.codebook = codebook;
        of_codes.emplace_back(of_same_codebook, WeightFormat::kCodebook4, kGroupSize);
      }
      ASSERT_NO_FATAL_FAILURE(ExpectSums(x, dtype, of_four_bits, call));
      if (has_order) continue;
      ASSERT_NO_FATAL_FAILURE(ExpectSums(x, dtype, of_bytes, call));
      ASSERT_NO_FATAL_FAILURE(ExpectSums(x, dtype, of_floats, call));
      ASSERT_NO_FATAL_FAILURE(ExpectSums(x, dtype, of_codes, call));
    }
  }
}

// In the way of few rows and in that of many, at any place of a tile.
TEST_P(CudaQuantizedGemm, ARowIsBitwiseTheSameAmongAnyNumberOfRows) {
  std::mt19937_64 random(kSeed);
  constexpr int64_t kRows = 150, kCols = 40;
  for (const TestDType dtype : kDTypes) {
    // Fewer chunks than slices, slices that end within a group, and groups that end within a slice.
    for (const auto& [k, group_size] :
         {std::pair<int64_t, int64_t>{96, 96}, {2624, 128}, {416, 32}, {448, 64}}) {
      const TestMatrix x = RandomInput(kRows, k, dtype, random);
      const RandomInt4 int4(Int4View::Layout::kGptq, kCols, k, group_size, DType::kF16, random);
      const TestMatrix numbers(DType::kF32, kCols, k, 1.0, random, 0);
      const RandomFloat8 float8(kCols, k, 1, group_size, random);
      Int4View in_other_order = int4.view();
      const std::vector<int32_t> order = RandomOrder(k, group_size, random);
      in_other_order.order = {reinterpret_cast<const std::byte*>(order.data()), DType::kI32, {k}};
      std::vector<Matrix> matrices = {{int4.view(), WeightFormat::kInt4, group_size},
                                      {in_other_order, WeightFormat::kInt4, group_size},
                                      {DenseView(numbers), WeightFormat::kInt8, 0},
                                      {float8.view(), WeightFormat::kFloat8, group_size}};
      if (group_size % kCodebook4GroupSize == 0) {
        const RandomCodebook4 codes(kCols, k, group_size, /*is_nested=*/false, random);
        matrices.emplace_back(codes.view(), WeightFormat::kCodebook4, std::gcd(group_size, k));
      }
      for (const Matrix& matrix : matrices) {
        const std::vector<float> all = Product(*devices()[0], x, dtype, {matrix}, {});
        const std::vector<Matrix> four(4, matrix);
        const std::vector<float> apart =
            Product(*devices()[0], x, dtype, four, {.sizes = {1, 32, 34, 83}});
        ASSERT_TRUE(BitwiseEqual(all.data(), apart.data(), apart.size() * sizeof(float)))
            << dtype.device << ' ' << matrix.layout.format << " k " << k << " seed " << kSeed;
      }
    }
  }
}

TEST_P(CudaQuantizedGemm, RowsNeedNotBeAligned) {
  std::mt19937_64 random(kSeed);
  for (const TestDType dtype : kDTypes) {
    for (const int64_t rows : {2, 40}) {
      const TestMatrix x = RandomInput(rows, 45, dtype, random);
      const TestMatrix numbers(DType::kF32, 33, 45, 1.0, random, 0);
      ASSERT_NO_FATAL_FAILURE(
          ExpectSums(x, dtype, {{DenseView(numbers), WeightFormat::kInt8, 0}}, {}));
      ASSERT_NO_FATAL_FAILURE(
          ExpectSums(x, dtype, {{DenseView(numbers), WeightFormat::kInt4, kInt4GroupSize}}, {}));
      const RandomFloat8 float8(33, 45, 1, 45, random);
      ASSERT_NO_FATAL_FAILURE(
          ExpectSums(x, dtype, {{float8.view(), WeightFormat::kFloat8, 45}}, {}));
    }
  }
}

ARIL_INSTANTIATE_CUDA_TEST(CudaQuantizedGemm);

}  // namespace
}  // namespace aril::kernels
