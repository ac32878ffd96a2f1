// Products of groups of rows with a matrix each, in the emulator and on a GPU, against sums in
// double.

#include "kernels/gemm/grouped_gemm_cuda.h"

#include <cmath>
#include <numeric>

#include "gtest/gtest.h"
#include "kernels/cuda/test_support.h"

namespace aril::kernels {
namespace {

constexpr uint64_t kSeed = 41;
constexpr float kUntouched = 12345;

struct Groups {
  std::vector<int32_t> sizes;
  std::vector<int32_t> x_rows;   // of each row; empty: its own number
  std::vector<float> bias = {};  // [groups, n] or nothing

  int32_t num_rows() const { return std::accumulate(sizes.begin(), sizes.end(), 0); }
  std::vector<int32_t> FirstRows() const {
    std::vector<int32_t> first = {0};
    for (const int32_t size : sizes) first.push_back(first.back() + size);
    return first;
  }
  int64_t XRow(int32_t row) const {
    return x_rows.empty() ? row : x_rows[static_cast<size_t>(row)];
  }
};

// y [rows + 1, n], of which the last row is in no group. W [groups · n, k].
std::vector<float> Product(CudaDevice& device, const TestMatrix& x, const TestMatrix& w,
                           TestDType dtype, const Groups& groups) {
  const auto num_groups = static_cast<int32_t>(groups.sizes.size());
  const auto n = static_cast<int32_t>(w.view().rows) / num_groups;
  const auto upload = [&](const TestMatrix& matrix) {
    const auto elements = static_cast<size_t>(matrix.view().rows * matrix.view().cols);
    return Upload(device, ToDeviceDType(matrix.view().data, elements * SizeOf(dtype.host), dtype));
  };
  const DeviceBuffer device_x = upload(x), device_w = upload(w);
  const DeviceBuffer first_rows = Upload(device, groups.FirstRows());
  DeviceBuffer x_rows;
  if (!groups.x_rows.empty()) x_rows = Upload(device, groups.x_rows);
  const DeviceBuffer bias = groups.bias.empty() ? DeviceBuffer() : Upload(device, groups.bias);
  const DeviceBuffer y = Upload(
      device, std::vector<float>(static_cast<size_t>((groups.num_rows() + 1) * n), kUntouched));
  Require(device.Check(device.kernels().grouped_gemm(device.context(), dtype.device,
                                                     {.first_rows = first_rows.as<int32_t>(),
                                                      .x_rows = x_rows.as<int32_t>(),
                                                      .x = device_x.data(),
                                                      .x_stride = x.view().cols,
                                                      .w = device_w.data(),
                                                      .bias = bias.as<float>(),
                                                      .groups = num_groups,
                                                      .n = n,
                                                      .k = static_cast<int32_t>(w.view().cols),
                                                      .y = y.as<float>(),
                                                      .y_stride = n}),
                       "product"));
  return Download<float>(device, y);
}

class CudaGroupedGemm : public CudaTest {};

// Groups of no rows, of few and of more than a tile has; columns of part of a tile and of several;
// k of part of a stage, of whole ones and with an end, aligned and not.
TEST_P(CudaGroupedGemm, MatchesSumsInDouble) {
  std::mt19937_64 random(kSeed);
  Groups groups{{0, 1, 9, 0, 130, 2}, {}};
  constexpr int32_t kXRows = 17;
  for (int32_t row = 0; row < groups.num_rows(); ++row) {
    groups.x_rows.push_back(static_cast<int32_t>(random() % kXRows));
  }
  const auto num_groups = static_cast<int64_t>(groups.sizes.size());
  for (const TestDType dtype : kDTypes) {
    for (const auto& [n, k] : {std::pair{20, 28}, {72, 64}, {70, 328}}) {
      const TestMatrix x(dtype.host, kXRows, k, 1.0, random, 0);
      const TestMatrix w(dtype.host, num_groups * n, k, 1.0, random, 0);
      groups.bias.clear();
      for (int64_t i = 0; i < num_groups * n; ++i) {
        groups.bias.push_back(static_cast<float>(random() % 7) - 3);
      }
      RoundTo(dtype.device, x);
      RoundTo(dtype.device, w);
      std::vector<float> result;
      for (const auto& device : devices()) {
        const std::vector<float> y = Product(*device, x, w, dtype, groups);
        if (result.empty()) result = y;
        ASSERT_TRUE(BitwiseEqual(y.data(), result.data(), y.size() * sizeof(float)))
            << "two runs differ, seed " << kSeed;
      }
      size_t at = 0;
      int32_t row = 0;
      for (int64_t group = 0; group < num_groups; ++group) {
        for (int32_t i = 0; i < groups.sizes[static_cast<size_t>(group)]; ++i, ++row) {
          for (int32_t c = 0; c < n; ++c) {
            double sum = groups.bias[static_cast<size_t>(group * n + c)];
            double magnitude = std::abs(sum);
            for (int64_t e = 0; e < k; ++e) {
              const double product =
                  double{x.view().At(groups.XRow(row), e)} * w.view().At(group * n + c, e);
              sum += product;
              magnitude += std::abs(product);
            }
            // An error for each addition, of which a tensor core's is twice a rounding.
            ASSERT_NEAR(result[at++], sum, 2 * static_cast<double>(k) * kFloatEps * magnitude)
                << dtype.device << " n " << n << " k " << k << " at " << row << "," << c << " seed "
                << kSeed;
          }
        }
      }
      for (; at < result.size(); ++at) ASSERT_EQ(result[at], kUntouched);
    }
  }
}

TEST_P(CudaGroupedGemm, ARowIsBitwiseTheSameAloneAndInAnyGroup) {
  std::mt19937_64 random(kSeed);
  constexpr int32_t kRows = 70, kCols = 24;
  for (const TestDType dtype : kDTypes) {
    const TestMatrix x(dtype.host, kRows, 200, 1.0, random, 0);
    const TestMatrix w(dtype.host, kCols, 200, 1.0, random, 0);
    // The same matrix, four times.
    const TestMatrix four(dtype.host, 4 * kCols, 200, 1.0, random, 0);
    for (int64_t r = 0; r < 4 * kCols; ++r) {
      std::memcpy(four.view().row(r), w.view().row(r % kCols), 200 * SizeOf(dtype.host));
    }
    const std::vector<float> together = Product(*devices()[0], x, w, dtype, {{kRows}, {}});
    const std::vector<float> apart = Product(*devices()[0], x, four, dtype, {{1, 2, 33, 34}, {}});
    ASSERT_TRUE(BitwiseEqual(together.data(), apart.data(), apart.size() * sizeof(float)))
        << dtype.device << " seed " << kSeed;
  }
}

// As many as there may be, more than a block has threads.
TEST_P(CudaGroupedGemm, ManyGroupsAreFound) {
  std::mt19937_64 random(kSeed);
  Groups groups{std::vector<int32_t>(kGroupedGemmMaxGroups, 0), {}};
  for (const size_t group : {0, 127, 128, 700, kGroupedGemmMaxGroups - 1}) groups.sizes[group] = 1;
  const TestDType dtype = kDTypes[0];
  const TestMatrix x(dtype.host, groups.num_rows(), 3, 1.0, random, 0);
  const TestMatrix w(dtype.host, kGroupedGemmMaxGroups, 3, 1.0, random, 0);
  for (const auto& device : devices()) {
    const std::vector<float> y = Product(*device, x, w, dtype, groups);
    size_t row = 0;
    for (size_t group = 0; group < groups.sizes.size(); ++group) {
      if (groups.sizes[group] == 0) continue;
      float expected = 0;
      for (int64_t e = 0; e < 3; ++e) {
        expected = std::fma(w.view().At(static_cast<int64_t>(group), e),
                            x.view().At(static_cast<int64_t>(row), e), expected);
      }
      EXPECT_EQ(y[row++], expected) << "group " << group << " seed " << kSeed;
    }
  }
}

ARIL_INSTANTIATE_CUDA_TEST(CudaGroupedGemm);

}  // namespace
}  // namespace aril::kernels
