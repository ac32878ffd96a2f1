// Batches of the LoRA operator on a device.

#ifndef ARIL_KERNELS_LORA_LORA_CUDA_TEST_SUPPORT_H_
#define ARIL_KERNELS_LORA_LORA_CUDA_TEST_SUPPORT_H_

#include <cmath>
#include <cstdint>
#include <cstring>
#include <deque>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cuda/test_support.h"
#include "kernels/lora/lora_cuda.h"
#include "kernels/lora/lora_plan.h"
#include "kernels/lora/lora_test_support.h"

namespace aril::kernels {

inline constexpr uint64_t kSeed = 7;
inline constexpr float kUntouched = 12345.0f;

inline void RoundTo(DType dtype, const TestBatch& batch) {
  for (const TestAdapter& adapter : batch.adapters) {
    for (const TestMatrix* m : {&adapter.a(), &adapter.b(), &adapter.gain()}) RoundTo(dtype, *m);
  }
}

// `width` elements at `from` as bytes of the device's dtype.
inline void AppendRow(const std::byte* from, int64_t width, TestDType dtype,
                      std::vector<std::byte>& to) {
  const size_t size = static_cast<size_t>(width) * SizeOf(dtype.device);
  const size_t begin = to.size();
  to.resize(begin + size);
  if (dtype.host == dtype.device) {
    std::memcpy(&to[begin], from, size);
    return;
  }
  const auto* values = reinterpret_cast<const float*>(from);
  for (size_t i = 0; i < static_cast<size_t>(width); ++i) {
    const F16 half = ToF16(values[i]);
    std::memcpy(&to[begin + i * sizeof(half)], &half, sizeof(half));
  }
}

// How rows lie on the device: one behind the other, or each at a multiple of 16 bytes.
enum class Rows { kPacked, kAligned };

inline int64_t StrideBytes(int64_t width, DType dtype, Rows rows) {
  const int64_t bytes = width * static_cast<int64_t>(SizeOf(dtype));
  return rows == Rows::kPacked ? bytes : (bytes + 15) / 16 * 16;
}

// Multiprocessors: few places for blocks, so that blocks have several items, and many.
inline const std::vector<int> kDeviceSizes = {1, 132};

// A batch's operands on a device. Every run of a matrix is an allocation of its own, which ends
// with the last row's last element.
class DeviceBatch {
 public:
  DeviceBatch(CudaDevice& device, const TestBatch& batch, TestDType dtype, Rows rows)
      : device_(device), batch_(batch), dtype_(dtype), rows_(rows) {
    for (const LoraSegment& segment : batch.segments) {
      // Two layers: the first is another's, which must not be read.
      std::vector<LoraDeviceWeights> weights(segment.targets.size(), {.rank = 7});
      std::vector<int32_t>& ranks = ranks_.emplace_back();
      for (size_t t = 0; t < segment.targets.size(); ++t) {
        const LoraWeights& w = segment.targets[t];
        weights.push_back({.a = Copy(w.a, batch.in),
                           .b = Copy(w.b, batch.targets[t].out),
                           .gain = Copy(w.gain, batch.targets[t].out),
                           .rank = w.rank,
                           .scale = w.scale});
        // A plan needs a bound only.
        ranks.push_back(w.rank == 0 ? 0 : std::min(kLoraMaxExpandRank, w.rank + rank_slack_++ % 3));
      }
      buffers_.push_back(Upload(device, weights));
      segments_.push_back({segment.first_row, segment.num_rows, segment.weight,
                           buffers_.back().as<LoraDeviceWeights>(), ranks});
    }
    for (const LoraTarget& target : batch.targets) {
      outs_.push_back(target.out);
      biases_.push_back(target.bias == nullptr
                            ? nullptr
                            : Add(std::vector<float>(target.bias, target.bias + target.out)));
    }
  }

  // y after shrink and expand, [rows, cols] packed, by the plan of a device of that size.
  std::vector<float> Run(const TestMatrix& x, const TestMatrix& y, int num_multiprocessors) {
    const LoraPlan plan({batch_.in, outs_, num_multiprocessors}, segments_);
    std::vector<std::byte> tables(static_cast<size_t>(plan.table_bytes()));
    plan.Write(tables.data());
    const DeviceBuffer device_tables = Upload(device_, tables);
    const int64_t x_stride = StrideBytes(batch_.in, dtype_.device, rows_);
    std::vector<std::byte> x_bytes;
    for (int64_t r = 0; r < batch_.rows; ++r) {
      x_bytes.resize(static_cast<size_t>(r * x_stride), std::byte{0xFF});
      AppendRow(x.view().row(r), batch_.in, dtype_, x_bytes);
    }
    const DeviceBuffer device_x = Upload(device_, x_bytes);
    // A column or more than there is to write, which must stay.
    const int64_t cols = y.view().cols;
    const int64_t y_stride = rows_ == Rows::kAligned ? (cols / 4 + 1) * 4 : cols + 1;
    std::vector<float> y_values(static_cast<size_t>(batch_.rows * y_stride), kUntouched);
    for (int64_t r = 0; r < batch_.rows; ++r) {
      std::copy_n(y.floats().row(r), cols, &y_values[static_cast<size_t>(r * y_stride)]);
    }
    const DeviceBuffer device_y = Upload(device_, y_values);
    const DeviceBuffer v = Allocate(device_, static_cast<size_t>(plan.v_floats()) * sizeof(float));

    const auto layer = static_cast<int32_t>(batch_.targets.size());
    const CudaKernels& kernels = device_.kernels();
    Require(device_.Check(
        kernels.lora_shrink(device_.context(), dtype_.device,
                            {.tables = device_tables.as<LoraTables>(),
                             .weights_offset = layer,
                             .x = device_x.data(),
                             .x_stride = x_stride / static_cast<int64_t>(SizeOf(dtype_.device)),
                             .in = static_cast<int32_t>(batch_.in),
                             .v = v.as<float>()}),
        "shrink"));
    LoraExpandArgs expand{.tables = device_tables.as<LoraTables>(),
                          .weights_offset = layer,
                          .max_rank = plan.max_rank(),
                          .v = v.as<float>(),
                          .y = device_y.as<float>(),
                          .y_stride = y_stride};
    for (size_t t = 0; t < batch_.targets.size(); ++t) {
      expand.targets[t] = {batch_.targets[t].first_col, biases_[t]};
    }
    Require(device_.Check(kernels.lora_expand(device_.context(), dtype_.device, expand), "expand"));
    y_values = Download<float>(device_, device_y);
    std::vector<float> result;
    for (int64_t r = 0; r < batch_.rows; ++r) {
      const float* row = &y_values[static_cast<size_t>(r * y_stride)];
      result.insert(result.end(), row, row + cols);
      for (int64_t c = cols; c < y_stride; ++c) EXPECT_EQ(row[c], kUntouched) << "row " << r;
    }
    return result;
  }

 private:
  template <typename T>
  T* Add(const std::vector<T>& values) {
    buffers_.push_back(Upload(device_, values));
    return buffers_.back().template as<T>();
  }

  LoraDeviceMatrix Copy(const LoraMatrix& matrix, int64_t width) {
    if (matrix.runs.empty()) return {};
    const int64_t stride = StrideBytes(width, dtype_.device, rows_);
    std::vector<MatrixRun> runs(matrix.runs.begin(), matrix.runs.end());
    for (MatrixRun& run : runs) {
      std::vector<std::byte> bytes;
      for (int32_t r = 0; r < run.num_rows; ++r) {
        bytes.resize(static_cast<size_t>(r * stride), std::byte{0xFF});
        AppendRow(run.data + r * matrix.row_stride_bytes, width, dtype_, bytes);
      }
      run.data = Add(bytes);
    }
    const MatrixRun* device_runs = Add(runs);
    return DescribeLoraMatrix({runs, stride}, device_runs);
  }

  CudaDevice& device_;
  const TestBatch& batch_;
  TestDType dtype_;
  Rows rows_;
  std::deque<DeviceBuffer> buffers_;
  std::deque<std::vector<int32_t>> ranks_;
  int32_t rank_slack_ = 0;
  std::vector<LoraPlanSegment> segments_;
  std::vector<int64_t> outs_;
  std::vector<const float*> biases_;
};

class CudaLora : public CudaTest {
 protected:
  // Runs on all devices, compares their bits, and one of them with the oracle. The bound is that of
  // the CPU's; a tensor core, which cuts off what does not fit its accumulator, has twice the error
  // of an addition that rounds.
  void ExpectMatches(const TestBatch& batch, TestDType dtype, Rows rows, std::mt19937_64& random,
                     const std::string& what, const std::vector<int>& sizes = kDeviceSizes) {
    RoundTo(dtype.device, batch);
    const TestMatrix x(dtype.host, batch.rows, batch.in, 1.0, random);
    RoundTo(dtype.device, x);
    const TestMatrix y(DType::kF32, batch.rows, batch.out0 + batch.out1, 1.0, random);
    const std::vector<double> expected = ExpectedOutput(batch, dtype.host, x, y);
    const double bound = 2 * LoraErrorBound(batch);
    std::vector<float> first;
    for (const auto& device : devices()) {
      DeviceBatch on_device(*device, batch, dtype, rows);
      for (const int size : sizes) {
        const std::vector<float> result = on_device.Run(x, y, size);
        if (first.empty()) first = result;
        ASSERT_TRUE(BitwiseEqual(result.data(), first.data(), first.size() * sizeof(float)))
            << what << ": two runs differ, seed " << kSeed;
      }
    }
    double error = 0, norm = 0;
    for (size_t i = 0; i < first.size(); ++i) {
      const double difference = static_cast<double>(first[i]) - expected[i];
      error += difference * difference;
      norm += expected[i] * expected[i];
    }
    // The bound above holds for the worst signs. Over a batch the errors are far smaller, and show
    // what it cannot: V in two terms of BF16 instead of three would give 4e-6 and more here, in one
    // 1e-3.
    EXPECT_LE(std::sqrt(error), 2e-6 * std::sqrt(norm)) << what << " " << dtype.device;
    for (size_t i = 0; i < first.size(); ++i) {
      const auto cols = static_cast<size_t>(y.view().cols);
      ASSERT_NEAR(first[i], expected[i], bound)
          << what << " " << dtype.device << (rows == Rows::kPacked ? " packed" : " aligned")
          << " at " << i / cols << "," << i % cols << " seed " << kSeed;
    }
  }
};

}  // namespace aril::kernels

#endif  // ARIL_KERNELS_LORA_LORA_CUDA_TEST_SUPPORT_H_
