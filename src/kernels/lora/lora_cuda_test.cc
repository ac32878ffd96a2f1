// The LoRA kernels for CUDA, in the emulator and on a GPU, against the oracle: the same batches as
// the CPU's.

#include "kernels/lora/lora_cuda.h"

#include <sstream>

#include "gtest/gtest.h"
#include "kernels/cuda/test_support.h"
#include "kernels/lora/lora_plan.h"
#include "kernels/lora/lora_test_support.h"

namespace aril::kernels {
namespace {

constexpr uint64_t kSeed = 7;
constexpr float kUntouched = 12345.0f;

void RoundTo(DType dtype, const TestBatch& batch) {
  for (const TestAdapter& adapter : batch.adapters) {
    for (const TestMatrix* m : {&adapter.a(), &adapter.b(), &adapter.gain()}) RoundTo(dtype, *m);
  }
}

// `width` elements at `from` as bytes of the device's dtype.
void AppendRow(const std::byte* from, int64_t width, TestDType dtype, std::vector<std::byte>& to) {
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

int64_t StrideBytes(int64_t width, DType dtype, Rows rows) {
  const int64_t bytes = width * static_cast<int64_t>(SizeOf(dtype));
  return rows == Rows::kPacked ? bytes : (bytes + 15) / 16 * 16;
}

// Multiprocessors: few places for blocks, so that blocks have several items, and many.
const std::vector<int> kDeviceSizes = {1, 132};

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

TEST_P(CudaLora, MatchesTheReferenceForEveryRank) {
  std::mt19937_64 random(kSeed);
  for (const TestDType dtype : kDTypes) {
    for (const int32_t rank : TestRanks()) {
      TestBatch batch = MakeBatch(70, 40, 24, 7);
      batch.Add(dtype.host, 0, 1, rank, rank, random);
      batch.Add(dtype.host, 1, 5, rank, 0, random);
      ASSERT_NO_FATAL_FAILURE(ExpectMatches(batch, dtype,
                                            rank % 2 == 0 ? Rows::kAligned : Rows::kPacked, random,
                                            "rank " + std::to_string(rank), {2}));
    }
  }
}

TEST_P(CudaLora, MatchesTheReferenceForMixedSegmentsAndSizes) {
  std::mt19937_64 random(kSeed);
  for (const TestDType dtype : kDTypes) {
    for (const int64_t in : {8, 333, 512}) {
      const TestBatch batch = MixedBatch(dtype.host, in, random);
      ASSERT_NO_FATAL_FAILURE(ExpectMatches(batch, dtype,
                                            in % 8 == 0 ? Rows::kAligned : Rows::kPacked, random,
                                            "in " + std::to_string(in)));
    }
  }
}

// Several chunks of `in`, and a segment that is split along it on a large device only.
TEST_P(CudaLora, MatchesTheReferenceForLongInputsAndLongSegments) {
  std::mt19937_64 random(kSeed);
  for (const TestDType dtype : kDTypes) {
    TestBatch batch = MakeBatch(2100, 20, 12, 310);
    batch.Add(dtype.host, 0, 300, 3, 0, random);
    batch.Add(dtype.host, 300, 1, 0, 4, random);
    batch.Add(dtype.host, 301, 9, 4, 2, random);
    ASSERT_NO_FATAL_FAILURE(ExpectMatches(batch, dtype, Rows::kAligned, random, "long"));
  }
}

TEST_P(CudaLora, SeveralAdaptersOnOneRowAreAppliedInOrder) {
  std::mt19937_64 random(kSeed);
  for (const TestDType dtype : kDTypes) {
    const TestBatch batch = OverlappingBatch(dtype.host, random);
    ASSERT_NO_FATAL_FAILURE(ExpectMatches(batch, dtype, Rows::kAligned, random, "overlap"));
  }
}

TEST_P(CudaLora, GainsScaleAllButTheBias) {
  std::mt19937_64 random(kSeed);
  const TestMatrix bias(DType::kF32, 1, 2100, 1.0, random);
  for (const TestDType dtype : kDTypes) {
    const TestBatch batch = GainBatch(dtype.host, bias.floats().row(0), random);
    ASSERT_NO_FATAL_FAILURE(ExpectMatches(batch, dtype, Rows::kAligned, random, "gain"));
  }
}

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
TEST_P(CudaLora, BInBlocksOfColumnsIsTheSameAsWhole) {
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

// Whatever the length of its segment, hence the schedule, and whatever the size of the device.
TEST_P(CudaLora, ARowIsBitwiseTheSameAloneAndInAnySegment) {
  std::mt19937_64 random(kSeed);
  constexpr int32_t kRows = 259;
  for (const TestDType dtype : kDTypes) {
    TestBatch batch = MakeBatch(1300, 70, 26, kRows);
    batch.Add(dtype.host, 0, kRows, 19, 6, random);
    RoundTo(dtype.device, batch);
    const TestMatrix x(dtype.host, kRows, batch.in, 1.0, random);
    RoundTo(dtype.device, x);
    const TestMatrix y(DType::kF32, kRows, batch.out0 + batch.out1, 1.0, random);
    // The large device splits the long segment along `in`, and has fewer rows in an item.
    const std::vector<float> together =
        DeviceBatch(*devices()[0], batch, dtype, Rows::kAligned).Run(x, y, kDeviceSizes.front());
    const std::vector<float> split =
        DeviceBatch(*devices()[0], batch, dtype, Rows::kAligned).Run(x, y, kDeviceSizes.back());
    ASSERT_TRUE(BitwiseEqual(together.data(), split.data(), split.size() * sizeof(float)))
        << dtype.device << " seed " << kSeed;
    const std::vector<LoraWeights> weights = batch.per_segment[0];
    for (const std::vector<int32_t>& cuts :
         {std::vector<int32_t>{0, 1, 2, 10, 19, 100, 258, kRows}, {0, 3, kRows}}) {
      TestBatch cut = MakeBatch(batch.in, batch.out0, batch.out1, kRows);
      for (size_t i = 1; i < cuts.size(); ++i) {
        cut.segments.push_back({cuts[i - 1], cuts[i] - cuts[i - 1], weights});
      }
      const std::vector<float> apart =
          DeviceBatch(*devices()[1], cut, dtype, Rows::kAligned).Run(x, y, kDeviceSizes.front());
      ASSERT_TRUE(BitwiseEqual(together.data(), apart.data(), apart.size() * sizeof(float)))
          << dtype.device << " seed " << kSeed;
    }
  }
}

TEST_P(CudaLora, RowsWithoutASegmentAreNotTouched) {
  std::mt19937_64 random(kSeed);
  TestBatch batch = MakeBatch(32, 20, 20, 5);
  batch.Add(DType::kBF16, 2, 1, 4, 0, random);
  const TestMatrix x(DType::kBF16, 5, 32, 1.0, random), y(DType::kF32, 5, 40, 1.0, random);
  const std::vector<float> after =
      DeviceBatch(*devices()[0], batch, kDTypes[1], Rows::kPacked).Run(x, y, 1);
  for (int64_t r = 0; r < 5; ++r) {
    const int64_t from = r == 2 ? 20 : 0;
    EXPECT_TRUE(BitwiseEqual(y.floats().row(r) + from, &after[static_cast<size_t>(r * 40 + from)],
                             static_cast<size_t>(40 - from) * sizeof(float)));
  }
}

// A captured launch reads the tables when it runs: one graph serves every step whose tables are put
// where the first one's were.
TEST_P(CudaLora, AGraphRunsWhateverTheTablesSayThen) {
  CudaDevice& device = *devices()[0];
  constexpr int64_t kIn = 64, kOut = 32, kStepRows = 3;
  const int64_t outs[] = {kOut};
  const int32_t rank[] = {2};
  const std::vector<float> ones(2 * kIn, 1.0f);
  const DeviceBuffer x = Upload(device, std::vector<float>(kStepRows * kIn, 1.0f));
  const DeviceBuffer matrix = Upload(device, ones);
  const MatrixRun run{matrix.data(), 0, 2};
  const DeviceBuffer weights = Upload(
      device, std::vector<LoraDeviceWeights>{
                  {.a = DescribeLoraMatrix({{&run, 1}, kIn * int64_t{sizeof(float)}}, nullptr),
                   .b = DescribeLoraMatrix({{&run, 1}, kOut * int64_t{sizeof(float)}}, nullptr),
                   .rank = 2,
                   .scale = 1}});
  const LoraPlanShape shape{kIn, outs, device.context().num_multiprocessors};
  const LoraPlanBounds bounds = BoundLoraPlan(shape, 3, kStepRows, 2);
  const DeviceBuffer tables = Allocate(device, static_cast<size_t>(bounds.table_bytes));
  const DeviceBuffer v = Allocate(device, static_cast<size_t>(bounds.v_floats) * sizeof(float));
  const DeviceBuffer y = Upload(device, std::vector<float>(kStepRows * kOut));
  auto graph = device.Capture([&] {
    RETURN_IF_ERROR(device.Check(device.kernels().lora_shrink(device.context(), DType::kF32,
                                                              {.tables = tables.as<LoraTables>(),
                                                               .x = x.data(),
                                                               .x_stride = kIn,
                                                               .in = kIn,
                                                               .v = v.as<float>()}),
                                 "shrink"));
    return device.Check(device.kernels().lora_expand(device.context(), DType::kF32,
                                                     {.tables = tables.as<LoraTables>(),
                                                      .max_rank = bounds.max_rank,
                                                      .v = v.as<float>(),
                                                      .y = y.as<float>(),
                                                      .y_stride = kOut}),
                        "expand");
  });
  Require(graph.status());
  const auto step = [&](std::vector<int32_t> rows) {
    std::vector<LoraPlanSegment> segments;
    for (const int32_t row : rows) {
      segments.push_back({row, 1, 1, weights.as<LoraDeviceWeights>(), rank});
    }
    const LoraPlan plan(shape, segments);
    Require(plan.CheckWithin(bounds));
    std::vector<std::byte> bytes(static_cast<size_t>(plan.table_bytes()));
    plan.Write(bytes.data());
    Require(device.CopyToDevice(tables.data(), bytes.data(), bytes.size()));
    Require((*graph)->Replay());
    const std::vector<float> values = Download<float>(device, y);
    return std::vector<float>{values[0], values[kOut], values[2 * kOut]};
  };
  constexpr float kSum = 2 * kIn;
  EXPECT_EQ(step({1}), (std::vector<float>{0, kSum, 0}));
  EXPECT_EQ(step({0, 2}), (std::vector<float>{kSum, kSum, kSum}));
  EXPECT_EQ(step({}), (std::vector<float>{kSum, kSum, kSum}));
}

TEST_P(CudaLora, AStepWithoutSegmentsIsNothing) {
  std::mt19937_64 random(kSeed);
  const TestBatch batch = MakeBatch(32, 20, 20, 2);
  const TestMatrix x(DType::kBF16, 2, 32, 1.0, random), y(DType::kF32, 2, 40, 1.0, random);
  const std::vector<float> after =
      DeviceBatch(*devices()[0], batch, kDTypes[1], Rows::kPacked).Run(x, y, 1);
  EXPECT_TRUE(BitwiseEqual(y.floats().row(1), &after[40], 40 * sizeof(float)));
}

ARIL_INSTANTIATE_CUDA_TEST(CudaLora);

// A GPU would be of no use to the tests after it.
TEST(CudaLoraDeathTest, TablesWithLargerRanksThanTheLaunchWasMadeForTrap) {
  const auto device = MakeEmulatedDevice(emulator::Order::kForward, 1);
  const int64_t outs[] = {32};
  const int32_t rank[] = {3};
  const std::vector<LoraPlanSegment> segments = {{0, 1, 1, nullptr, rank}};
  const LoraPlan plan({64, outs, 1}, segments);
  std::vector<std::byte> bytes(static_cast<size_t>(plan.table_bytes()));
  plan.Write(bytes.data());
  const DeviceBuffer tables = Upload(*device, bytes);
  const auto launch = [&] {
    (void)device->kernels().lora_expand(device->context(), DType::kF32,
                                        {.tables = tables.as<LoraTables>(), .max_rank = 2});
    (void)device->Synchronize();
  };
  EXPECT_DEATH(launch(), "ranks of at most the launch's max_rank");
}

}  // namespace
}  // namespace aril::kernels
