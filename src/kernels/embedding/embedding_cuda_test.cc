// Embeddings on CUDA, in the emulator and on a GPU: everything is a copy, hence exact.

#include "kernels/embedding/embedding_cuda.h"

#include "gtest/gtest.h"
#include "kernels/cuda/test_support.h"
#include "kernels/lora/lora_plan.h"

namespace aril::kernels {
namespace {

constexpr uint64_t kSeed = 29;
constexpr float kScale = 3;
constexpr int32_t kVocab = 37;
const std::vector<int32_t> kTokens = {6, 0, 36, 6, 17, 20, 1};

// A table on a device, one row behind the other, and described as a matrix that lies in runs of
// random lengths, each an allocation of its own.
class DeviceTable {
 public:
  DeviceTable(CudaDevice& device, const TestMatrix& table, TestDType dtype,
              std::mt19937_64& random) {
    const int64_t width = table.view().cols;
    const auto row_bytes = static_cast<size_t>(width) * SizeOf(dtype.device);
    const std::vector<std::byte> bytes = ToDeviceDType(
        table.view().data, static_cast<size_t>(kVocab * width) * SizeOf(dtype.host), dtype);
    for (int32_t row = 0; row < kVocab;) {
      const auto length = std::min<int32_t>(kVocab - row, 1 + static_cast<int32_t>(random() % 9));
      const auto from = bytes.begin() + static_cast<std::ptrdiff_t>(row * row_bytes);
      buffers_.push_back(Upload(
          device,
          std::vector<std::byte>(from, from + static_cast<std::ptrdiff_t>(length * row_bytes))));
      runs_.push_back({buffers_.back().data(), row, length});
      row += length;
    }
    buffers_.push_back(Upload(device, runs_));
    matrix = DescribeLoraMatrix({runs_, static_cast<int64_t>(row_bytes)},
                                buffers_.back().as<MatrixRun>());
    buffers_.push_back(Upload(device, bytes));
    data = buffers_.back().data();
    buffers_.push_back(Upload(device, std::vector<LoraDeviceMatrix>{matrix}));
    on_device = buffers_.back().as<LoraDeviceMatrix>();
  }

  const std::byte* data;
  LoraDeviceMatrix matrix;
  const LoraDeviceMatrix* on_device;

 private:
  std::vector<DeviceBuffer> buffers_;
  std::vector<MatrixRun> runs_;
};

class CudaEmbedding : public CudaTest {};

TEST_P(CudaEmbedding, IsTheTokensRowOfTheTableOrOfARowsOwnMatrix) {
  std::mt19937_64 random(kSeed);
  constexpr int64_t kSize = 300;
  const auto rows = static_cast<int32_t>(kTokens.size());
  for (const TestDType dtype : kDTypes) {
    const TestMatrix base(dtype.host, kVocab, kSize, 1.0, random, 0);
    const TestMatrix first(dtype.host, kVocab, kSize, 1.0, random, 0);
    const TestMatrix second(dtype.host, kVocab, kSize, 1.0, random, 0);
    for (const TestMatrix* table : {&base, &first, &second}) RoundTo(dtype.device, *table);
    const std::vector<const TestMatrix*> of_row = {&base,   &first, &second, &second,
                                                   &second, &base,  &first};
    for (const auto& device : devices()) {
      const DeviceTable on_base(*device, base, dtype, random);
      const DeviceTable on_first(*device, first, dtype, random);
      const DeviceTable on_second(*device, second, dtype, random);
      std::vector<const LoraDeviceMatrix*> own;
      for (const TestMatrix* table : of_row) {
        own.push_back(table == &base    ? nullptr
                      : table == &first ? on_first.on_device
                                        : on_second.on_device);
      }
      const DeviceBuffer ids = Upload(*device, kTokens), device_own = Upload(*device, own);
      const DeviceBuffer out = Allocate(*device, kTokens.size() * kSize * sizeof(float));
      // Of fewer tokens, those behind have a row only where it is a matrix's own.
      for (const auto& [has_own, vocab] :
           {std::pair(false, kVocab), {true, kVocab}, {false, 17}, {true, 17}}) {
        Require(
            device->Check(device->kernels().embed(
                              device->context(), dtype.device,
                              {.tokens = ids.as<int32_t>(),
                               .table = on_base.data,
                               .own = has_own ? device_own.as<const LoraDeviceMatrix*>() : nullptr,
                               .rows = rows,
                               .vocab = vocab,
                               .size = kSize,
                               .scale = kScale,
                               .out = out.as<float>(),
                               .out_stride = kSize}),
                          "embed"));
        const std::vector<float> values = Download<float>(*device, out);
        for (size_t i = 0; i < values.size(); ++i) {
          const TestMatrix& table = has_own ? *of_row[i / kSize] : base;
          const int32_t token = kTokens[i / kSize];
          const float element = &table != &base || token < vocab
                                    ? table.view().At(token, static_cast<int64_t>(i % kSize))
                                    : 0;
          ASSERT_EQ(values[i], element * kScale)
              << dtype.device << " own " << has_own << " vocab " << vocab << " seed " << kSeed;
        }
      }
    }
  }
}

// V where a plan says, for ranks of one tile and of more; what no segment has stays.
TEST_P(CudaEmbedding, AShrinkIsTheTokensRowOfA) {
  std::mt19937_64 random(kSeed);
  const int64_t outs[] = {64};
  for (const TestDType dtype : kDTypes) {
    for (const int32_t rank : {1, 5, 16, 33}) {
      const TestMatrix a(dtype.host, kVocab, rank, 1.0, random, 0);
      RoundTo(dtype.device, a);
      for (const auto& device : devices()) {
        const DeviceTable table(*device, a, dtype, random);
        const DeviceBuffer weights = Upload(
            *device, std::vector<LoraDeviceWeights>{{.a = table.matrix, .rank = rank, .scale = 1}});
        const int32_t bound[] = {rank + 2};  // a plan needs a bound only
        const std::vector<LoraPlanSegment> segments = {
            {1, 2, 1, weights.as<LoraDeviceWeights>(), bound},
            {2, 5, 0.5F, weights.as<LoraDeviceWeights>(), bound}};
        const LoraPlan plan({1, outs, device->context().num_multiprocessors}, segments);
        std::vector<std::byte> bytes(static_cast<size_t>(plan.table_bytes()));
        plan.Write(bytes.data());
        const DeviceBuffer tables = Upload(*device, bytes), ids = Upload(*device, kTokens);
        constexpr float kUntouched = 12345;
        const DeviceBuffer v =
            Upload(*device, std::vector<float>(static_cast<size_t>(plan.v_floats()), kUntouched));
        Require(device->Check(device->kernels().embed_shrink(device->context(), dtype.device,
                                                             {.tables = tables.as<LoraTables>(),
                                                              .tokens = ids.as<int32_t>(),
                                                              .scale = kScale,
                                                              .v = v.as<float>()}),
                              "shrink"));
        const std::vector<float> values = Download<float>(*device, v);
        auto value = values.begin();
        for (const LoraPlanSegment& segment : segments) {
          for (int32_t row = segment.first_row; row < segment.first_row + segment.num_rows; ++row) {
            for (int32_t j = 0; j < bound[0]; ++j) {
              const float expected =
                  j < rank ? a.view().At(kTokens[static_cast<size_t>(row)], j) * kScale
                           : kUntouched;
              ASSERT_EQ(*value++, expected)
                  << dtype.device << " rank " << rank << " row " << row << " seed " << kSeed;
            }
          }
        }
      }
    }
  }
}

ARIL_INSTANTIATE_CUDA_TEST(CudaEmbedding);

TEST(CudaEmbeddingDeathTest, ALargerRankThanThePlansTraps) {
  const auto device = MakeEmulatedDevice(emulator::Order::kForward, 1);
  const int64_t outs[] = {64};
  const int32_t bound[] = {3};
  const DeviceBuffer weights =
      Upload(*device, std::vector<LoraDeviceWeights>{{.rank = 4, .scale = 1}});
  const std::vector<LoraPlanSegment> segments = {{0, 1, 1, weights.as<LoraDeviceWeights>(), bound}};
  const LoraPlan plan({1, outs, 1}, segments);
  std::vector<std::byte> bytes(static_cast<size_t>(plan.table_bytes()));
  plan.Write(bytes.data());
  const DeviceBuffer tables = Upload(*device, bytes);
  const auto launch = [&] {
    (void)device->kernels().embed_shrink(device->context(), DType::kF32,
                                         {.tables = tables.as<LoraTables>()});
    (void)device->Synchronize();
  };
  EXPECT_DEATH(launch(), "a rank of at most the plan's");
}

}  // namespace
}  // namespace aril::kernels
