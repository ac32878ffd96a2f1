// The LoRA kernels for CUDA, in the emulator and on a GPU, against the oracle: the same batches as
// the CPU's.

#include "kernels/lora/lora_cuda.h"

#include <sstream>

#include "gtest/gtest.h"
#include "kernels/lora/lora_cuda_test_support.h"

namespace aril::kernels {
namespace {

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
