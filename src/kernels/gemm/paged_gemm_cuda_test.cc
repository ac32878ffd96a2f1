// Products with a matrix in pages, in the emulator and on a GPU, against sums in double.

#include "kernels/gemm/paged_gemm_cuda.h"

#include <cmath>

#include "gtest/gtest.h"
#include "kernels/cuda/test_support.h"
#include "kernels/gemm/paged_gemm_plan.h"

namespace aril::kernels {
namespace {

constexpr uint64_t kSeed = 37;
constexpr float kUntouched = 12345;

// W [n, k] on a device in runs of random lengths, each an allocation of its own.
class PagedMatrix {
 public:
  PagedMatrix(CudaDevice& device, const TestMatrix& w, TestDType dtype, std::mt19937_64& random) {
    const auto n = static_cast<int32_t>(w.view().rows);
    const auto row_bytes = static_cast<size_t>(w.view().cols) * SizeOf(dtype.device);
    const std::vector<std::byte> bytes = ToDeviceDType(
        w.view().data, static_cast<size_t>(n * w.view().cols) * SizeOf(dtype.host), dtype);
    for (int32_t row = 0; row < n;) {
      const auto length = std::min<int32_t>(n - row, 1 + static_cast<int32_t>(random() % 90));
      const auto from = bytes.begin() + static_cast<std::ptrdiff_t>(row * row_bytes);
      const auto end = from + static_cast<std::ptrdiff_t>(length * row_bytes);
      buffers_.push_back(Upload(device, std::vector<std::byte>(from, end)));
      runs_.push_back({buffers_.back().data(), row, length});
      row += length;
    }
    matrix = {runs_, static_cast<int64_t>(row_bytes)};
  }

  LoraMatrix matrix;

 private:
  std::vector<DeviceBuffer> buffers_;
  std::vector<MatrixRun> runs_;
};

// y [rows, n] of rows that are kUntouched before.
std::vector<float> Product(CudaDevice& device, const TestMatrix& x, TestDType dtype,
                           const std::vector<PagedGemmPart>& parts, int32_t n) {
  const PagedGemmPlan plan(parts);
  std::vector<std::byte> bytes(plan.table_bytes());
  plan.Write(bytes.data());
  const auto rows = static_cast<int32_t>(x.view().rows), k = static_cast<int32_t>(x.view().cols);
  const DeviceBuffer tables = Upload(device, bytes);
  const DeviceBuffer device_x = Upload(
      device,
      ToDeviceDType(x.view().data, static_cast<size_t>(rows * k) * SizeOf(dtype.host), dtype));
  const DeviceBuffer y =
      Upload(device, std::vector<float>(static_cast<size_t>(rows * n), kUntouched));
  Require(device.Check(device.kernels().paged_gemm(device.context(), dtype.device,
                                                   {.tables = tables.as<PagedGemmTables>(),
                                                    .x = device_x.data(),
                                                    .x_stride = k,
                                                    .rows = rows,
                                                    .n = n,
                                                    .k = k,
                                                    .y = y.as<float>(),
                                                    .y_stride = n}),
                       "product"));
  return Download<float>(device, y);
}

class CudaPagedGemm : public CudaTest {};

// Two matrices, rows of none; `k` with and without whole slices, and with several chunks.
TEST_P(CudaPagedGemm, MatchesSumsInDoubleAndLeavesOtherRowsAlone) {
  std::mt19937_64 random(kSeed);
  constexpr int32_t kRows = 45, kCols = 150;
  for (const TestDType dtype : kDTypes) {
    for (const int64_t k : {64, 333, 1312}) {
      const TestMatrix x(dtype.host, kRows, k, 1.0, random, 0);
      const TestMatrix first(dtype.host, kCols, k, 1.0, random, 0);
      const TestMatrix second(dtype.host, kCols, k, 1.0, random, 0);
      for (const TestMatrix* matrix : {&x, &first, &second}) RoundTo(dtype.device, *matrix);
      std::vector<float> result;
      for (const auto& device : devices()) {
        const PagedMatrix on_first(*device, first, dtype, random);
        const PagedMatrix on_second(*device, second, dtype, random);
        const std::vector<float> y = Product(
            *device, x, dtype, {{0, 34, on_first.matrix}, {35, 1, on_second.matrix}}, kCols);
        if (result.empty()) result = y;
        ASSERT_TRUE(BitwiseEqual(y.data(), result.data(), y.size() * sizeof(float)))
            << "two runs differ, seed " << kSeed;
      }
      for (int32_t r = 0; r < kRows; ++r) {
        const TestMatrix* const w = r < 34 ? &first : r == 35 ? &second : nullptr;
        for (int32_t c = 0; c < kCols; ++c) {
          const float got = result[static_cast<size_t>(r) * kCols + static_cast<size_t>(c)];
          if (w == nullptr) {
            ASSERT_EQ(got, kUntouched) << "row " << r;
            continue;
          }
          double sum = 0, magnitude = 0;
          for (int64_t i = 0; i < k; ++i) {
            const double product = double{x.view().At(r, i)} * w->view().At(c, i);
            sum += product;
            magnitude += std::abs(product);
          }
          // An error for each addition, of which a tensor core's is twice a rounding.
          ASSERT_NEAR(got, sum, 2 * static_cast<double>(k) * kFloatEps * magnitude)
              << dtype.device << " k " << k << " at " << r << "," << c << " seed " << kSeed;
        }
      }
    }
  }
}

TEST_P(CudaPagedGemm, ARowIsBitwiseTheSameAloneAndInAnyPart) {
  std::mt19937_64 random(kSeed);
  constexpr int32_t kRows = 70, kCols = 40;
  for (const TestDType dtype : kDTypes) {
    const TestMatrix x(dtype.host, kRows, 1104, 1.0, random, 0);
    const TestMatrix w(dtype.host, kCols, 1104, 1.0, random, 0);
    const PagedMatrix on_device(*devices()[0], w, dtype, random);
    const PagedMatrix elsewhere(*devices()[0], w, dtype, random);  // other runs
    const std::vector<float> together =
        Product(*devices()[0], x, dtype, {{0, kRows, on_device.matrix}}, kCols);
    std::vector<PagedGemmPart> parts;
    for (const auto& [first, last] : {std::pair{0, 1}, {1, 3}, {3, 36}, {36, kRows}}) {
      parts.push_back({first, last - first, elsewhere.matrix});
    }
    const std::vector<float> apart = Product(*devices()[0], x, dtype, parts, kCols);
    ASSERT_TRUE(BitwiseEqual(together.data(), apart.data(), apart.size() * sizeof(float)))
        << dtype.device << " seed " << kSeed;
  }
}

ARIL_INSTANTIATE_CUDA_TEST(CudaPagedGemm);

TEST(CudaPagedGemmDeathTest, ItemsBeyondTheProductTrap) {
  const auto device = MakeEmulatedDevice(emulator::Order::kForward, 1);
  const MatrixRun run{nullptr, 0, 8};
  const PagedGemmPlan plan(std::vector<PagedGemmPart>{{2, 1, {{&run, 1}, 16}}});
  std::vector<std::byte> bytes(plan.table_bytes());
  plan.Write(bytes.data());
  const DeviceBuffer tables = Upload(*device, bytes);
  const auto launch = [&](int32_t rows, int32_t n) {
    (void)device->kernels().paged_gemm(
        device->context(), DType::kF32,
        {.tables = tables.as<PagedGemmTables>(), .rows = rows, .n = n, .k = 4});
    (void)device->Synchronize();
  };
  EXPECT_DEATH(launch(2, 8), "rows that the product has");
  EXPECT_DEATH(launch(3, 7), "columns that the product has");
}

}  // namespace
}  // namespace aril::kernels
