// The LoRA kernels for CUDA where B lies in blocks of columns, as that of lm_head does.

#include "gtest/gtest.h"
#include "kernels/lora/lora_cuda.h"
#include "kernels/lora/lora_cuda_test_support.h"

namespace aril::kernels {
namespace {

// B and gains of `adapter` [rank, out] in blocks of so many columns, as lm_head's lie; A with the
// first.
class BlockedAdapter {
 public:
  BlockedAdapter(CudaDevice& device, const TestAdapter& adapter, bool with_gain, int64_t block_cols,
                 TestDType dtype)
      : device_(device), dtype_(dtype) {
    const int64_t out = adapter.b().view().cols;
    std::vector<LoraDeviceWeights> weights;
    for (int64_t first = 0; first < out; first += block_cols) {
      const int64_t width = std::min(block_cols, out - first);
      weights.push_back({.b = Columns(adapter.b(), first, width),
                         .rank = adapter.weights().rank,
                         .scale = adapter.weights().scale});
      if (with_gain) weights.back().gain = Columns(adapter.gain(), first, width);
    }
    weights[0].a = Columns(adapter.a(), 0, adapter.a().view().cols);
    buffers_.push_back(Upload(device, weights));
  }

  const LoraDeviceWeights* weights() const { return buffers_.back().as<LoraDeviceWeights>(); }

 private:
  LoraDeviceMatrix Columns(const TestMatrix& matrix, int64_t first, int64_t width) {
    std::vector<std::byte> bytes;
    for (int64_t r = 0; r < matrix.view().rows; ++r) {
      AppendRow(matrix.view().Columns(first, width).row(r), width, dtype_, bytes);
    }
    buffers_.push_back(Upload(device_, bytes));
    const MatrixRun run{buffers_.back().data(), 0, static_cast<int32_t>(matrix.view().rows)};
    return DescribeLoraMatrix({{&run, 1}, StrideBytes(width, dtype_.device, Rows::kPacked)},
                              nullptr);
  }

  CudaDevice& device_;
  TestDType dtype_;
  std::deque<DeviceBuffer> buffers_;
};

// Blocks say where columns lie, and change no bit of them.
using CudaLoraBlocks = CudaLora;

TEST_P(CudaLoraBlocks, BInBlocksOfColumnsIsTheSameAsWhole) {
  std::mt19937_64 random(kSeed);
  constexpr int64_t kIn = 40, kRows = 20;
  const int64_t outs[] = {700};
  for (const TestDType dtype : kDTypes) {
    const TestAdapter first(dtype.host, 5, kIn, outs[0], random);
    const TestAdapter second(dtype.host, 20, kIn, outs[0], random);
    for (const TestAdapter* adapter : {&first, &second}) {
      for (const TestMatrix* m : {&adapter->a(), &adapter->b(), &adapter->gain()}) {
        RoundTo(dtype.device, *m);
      }
    }
    const TestMatrix x(dtype.host, kRows, kIn, 1.0, random, 0);
    RoundTo(dtype.device, x);
    const TestMatrix y(DType::kF32, kRows, outs[0], 1.0, random, 0);
    const auto run = [&](CudaDevice& device, int64_t block_cols) {
      const int64_t cols = block_cols == 0 ? outs[0] : block_cols;
      const BlockedAdapter on_first(device, first, false, cols, dtype);
      const BlockedAdapter on_second(device, second, true, cols, dtype);
      const int32_t ranks[] = {5, 20};
      const std::vector<LoraPlanSegment> segments = {
          {0, 17, 0.5F, on_first.weights(), {&ranks[0], 1}},
          {10, 9, 1, on_second.weights(), {&ranks[1], 1}}};
      const LoraPlan plan({kIn, outs, device.context().num_multiprocessors, block_cols}, segments);
      std::vector<std::byte> bytes(static_cast<size_t>(plan.table_bytes()));
      plan.Write(bytes.data());
      const DeviceBuffer tables = Upload(device, bytes);
      const DeviceBuffer device_x =
          Upload(device, ToDeviceDType(x.view().data, kRows * kIn * SizeOf(dtype.host), dtype));
      const DeviceBuffer device_y =
          Upload(device, std::vector<float>(y.floats().data, y.floats().data + kRows * outs[0]));
      const DeviceBuffer v = Allocate(device, static_cast<size_t>(plan.v_floats()) * sizeof(float));
      Require(device.Check(device.kernels().lora_shrink(device.context(), dtype.device,
                                                        {.tables = tables.as<LoraTables>(),
                                                         .x = device_x.data(),
                                                         .x_stride = kIn,
                                                         .in = kIn,
                                                         .v = v.as<float>()}),
                           "shrink"));
      Require(device.Check(device.kernels().lora_expand(device.context(), dtype.device,
                                                        {.tables = tables.as<LoraTables>(),
                                                         .max_rank = plan.max_rank(),
                                                         .v = v.as<float>(),
                                                         .y = device_y.as<float>(),
                                                         .y_stride = outs[0]}),
                           "expand"));
      return Download<float>(device, device_y);
    };
    const std::vector<float> whole = run(*devices()[0], 0);
    for (const int64_t block_cols : {16, 304, 512, 1024}) {
      for (const auto& device : devices()) {
        const std::vector<float> blocks = run(*device, block_cols);
        ASSERT_TRUE(BitwiseEqual(blocks.data(), whole.data(), whole.size() * sizeof(float)))
            << dtype.device << " blocks of " << block_cols << " seed " << kSeed;
      }
    }
  }
}

ARIL_INSTANTIATE_CUDA_TEST(CudaLoraBlocks);

}  // namespace
}  // namespace aril::kernels
