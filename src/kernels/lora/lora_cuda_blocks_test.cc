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

// y [rows, its width], to which a plan's segments have added what they make of x.
std::vector<float> Apply(CudaDevice& device, const TestDType& dtype, const LoraPlanShape& shape,
                         std::span<const LoraPlanSegment> segments, const TestMatrix& x,
                         const TestMatrix& y) {
  const LoraPlan plan(shape, segments);
  std::vector<std::byte> bytes(static_cast<size_t>(plan.table_bytes()));
  plan.Write(bytes.data());
  const MatrixView<const float> rows = y.floats();
  const DeviceBuffer tables = Upload(device, bytes);
  const DeviceBuffer device_x = Upload(
      device, ToDeviceDType(x.view().data,
                            static_cast<size_t>(rows.rows * shape.in) * SizeOf(dtype.host), dtype));
  const DeviceBuffer device_y =
      Upload(device, std::vector<float>(rows.data, rows.data + rows.rows * rows.cols));
  const DeviceBuffer v = Allocate(device, static_cast<size_t>(plan.v_floats()) * sizeof(float));
  Require(device.Check(device.kernels().lora_shrink(device.context(), dtype.device,
                                                    {.tables = tables.as<LoraTables>(),
                                                     .x = device_x.data(),
                                                     .x_stride = shape.in,
                                                     .in = static_cast<int32_t>(shape.in),
                                                     .v = v.as<float>()}),
                       "shrink"));
  Require(device.Check(device.kernels().lora_expand(device.context(), dtype.device,
                                                    {.tables = tables.as<LoraTables>(),
                                                     .max_rank = plan.max_rank(),
                                                     .v = v.as<float>(),
                                                     .y = device_y.as<float>(),
                                                     .y_stride = rows.cols}),
                       "expand"));
  return Download<float>(device, device_y);
}

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
      return Apply(device, dtype, {kIn, outs, device.context().num_multiprocessors, block_cols},
                   segments, x, y);
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

// Of segments of three widths in one plan, each row is as in a plan of its own: bits, and what lies
// behind its columns.
TEST_P(CudaLoraBlocks, SegmentsMayHaveOutputsOfTheirOwn) {
  std::mt19937_64 random(kSeed);
  constexpr int64_t kIn = 40, kRows = 20, kBlockCols = 304, kStride = 720;
  const int64_t outs[] = {700};
  const TestDType dtype = kDTypes[1];
  struct Part {
    int32_t first_row, num_rows;
    int64_t out;
    std::unique_ptr<TestAdapter> adapter;
  };
  std::vector<Part> parts;
  for (const auto& [first, count, out] :
       {std::tuple(0, 9, 700), {9, 4, 710}, {13, 1, 290}, {14, 6, 609}}) {
    parts.push_back(
        {first, count, out, std::make_unique<TestAdapter>(dtype.host, 5, kIn, out, random)});
    const TestAdapter& adapter = *parts.back().adapter;
    for (const TestMatrix* m : {&adapter.a(), &adapter.b()}) RoundTo(dtype.device, *m);
  }
  const TestMatrix x(dtype.host, kRows, kIn, 1.0, random, 0);
  RoundTo(dtype.device, x);
  const TestMatrix y(DType::kF32, kRows, kStride, 1.0, random, 0);
  const auto run = [&](CudaDevice& device, size_t first, size_t count) {
    std::vector<std::unique_ptr<BlockedAdapter>> adapters;
    std::vector<LoraPlanSegment> segments;
    const int32_t rank[] = {5};
    for (size_t i = first; i < first + count; ++i) {
      const Part& part = parts[i];
      adapters.push_back(
          std::make_unique<BlockedAdapter>(device, *part.adapter, false, kBlockCols, dtype));
      segments.push_back(
          {part.first_row, part.num_rows, 1, adapters.back()->weights(), rank, part.out});
    }
    return Apply(device, dtype, {kIn, outs, device.context().num_multiprocessors, kBlockCols},
                 segments, x, y);
  };
  for (const auto& device : devices()) {
    const std::vector<float> together = run(*device, 0, parts.size());
    for (size_t i = 0; i < parts.size(); ++i) {
      const std::vector<float> alone = run(*device, i, 1);
      for (int64_t row = parts[i].first_row; row < parts[i].first_row + parts[i].num_rows; ++row) {
        const float* const found = together.data() + row * kStride;
        ASSERT_TRUE(BitwiseEqual(found, alone.data() + row * kStride, kStride * sizeof(float)))
            << "row " << row << " seed " << kSeed;
        const float* const before = y.floats().data + row * kStride;
        EXPECT_NE(found[parts[i].out - 1], before[parts[i].out - 1]) << "row " << row;
        ASSERT_TRUE(BitwiseEqual(found + parts[i].out, before + parts[i].out,
                                 static_cast<size_t>(kStride - parts[i].out) * sizeof(float)))
            << "row " << row << " seed " << kSeed;
      }
    }
  }
}

ARIL_INSTANTIATE_CUDA_TEST(CudaLoraBlocks);

}  // namespace
}  // namespace aril::kernels
