// Mixtures on the CUDA backend: what is not seen in a model's logits. That they are right is
// cuda_backend_test.cc's.

#include "model/cuda_experts.h"

#include <random>

#include "gtest/gtest.h"
#include "kernels/lora/expert_lora_plan.h"
#include "model/cuda_backend_test_fixture.h"

namespace aril {
namespace {

using kernels::CudaTest;
using kernels::Require;

constexpr uint64_t kSeed = 43;
constexpr int32_t kRows = 21;

class CudaExpertsTest : public CudaTest {};

// With adapters whose rows are in several chunks.
TEST_P(CudaExpertsTest, ChunksOfRowsChangeNoBit) {
  const Golden golden(SourcePath("tests/goldens/qwen3-moe-f32"));
  const ModelSpec& spec = golden.spec;
  constexpr DType kDType = DType::kBF16;
  for (const auto& device : devices()) {
    ThreadPool threads(1);
    const DeviceWeights weights =
        Value(LoadDeviceWeights(Value(OpenBaseCheckpoint(golden.path, spec)), spec, kDType,
                                Quantization::kNone, *device, threads, nullptr));
    const kernels::KvLayout layout = SmallPages(spec, kDType);
    const auto arena = Value(CudaArena::Create(*device, kNumPages, layout.page_bytes()));
    PagePool pool(kNumPages);
    std::vector<ResidentAdapter> residents;
    for (const Adapter& adapter : golden.adapters) {
      if (!ChangesExperts(adapter)) continue;
      residents.push_back(Golden::Place(adapter, pool, *arena, kDType));
      residents.back().Copy(adapter, *arena);
    }
    ASSERT_GE(residents.size(), 2U);
    const ResidentAdapter* const wanted[] = {&residents[0], &residents[1]};
    CudaAdapters adapters(*device, spec);
    const std::vector<CudaAdapters::Table> tables = Value(adapters.Find(wanted));
    const std::vector<kernels::ExpertLoraSegment> segments = {
        {2, 15, 1.0F, tables[0].experts, tables[0].expert_rank},
        {12, 9, 0.5F, tables[1].experts, tables[1].expert_rank}};
    const kernels::ExpertLoraPlan plan(segments);
    std::vector<std::byte> bytes(plan.table_bytes(kRows));
    plan.Write(bytes.data(), kRows);
    const kernels::DeviceBuffer device_plan = kernels::Upload(*device, bytes);
    const auto v_floats =
        static_cast<size_t>(CudaExperts::VFloats(spec, kRows, plan.max_entries(), plan.max_rank()));
    const kernels::DeviceBuffer v = kernels::Allocate(*device, v_floats * sizeof(float));

    std::mt19937_64 random(kSeed);
    const kernels::TestMatrix x(kDType, kRows, spec.hidden_size, 1.0, random, 0);
    const auto* const x_begin = static_cast<const std::byte*>(x.view().data);
    const kernels::DeviceBuffer device_x = kernels::Upload(
        *device,
        std::vector<std::byte>(x_begin, x_begin + kRows * spec.hidden_size * SizeOf(kDType)));
    std::normal_distribution<float> normal(0, 1);
    std::vector<float> scores(static_cast<size_t>(kRows * spec.experts->count));
    for (float& score : scores) score = normal(random);
    const kernels::DeviceBuffer num_rows = kernels::Upload(*device, std::vector<int32_t>{kRows});
    const auto run = [&](int32_t chunk_rows, bool with_adapters) {
      CudaExperts experts(*device, spec, kDType);
      Require(experts.Reserve(kRows));
      Require(device->CopyToDevice(reinterpret_cast<std::byte*>(experts.logits()), scores.data(),
                                   std::span(scores).size_bytes()));
      const kernels::DeviceBuffer out =
          kernels::Allocate(*device, static_cast<size_t>(kRows * spec.hidden_size) * sizeof(float));
      CudaExperts::Args args = {.layer = 1,
                                .x = device_x.data(),
                                .rows = kRows,
                                .num_rows = num_rows.as<int32_t>(),
                                .out = out.as<float>()};
      if (with_adapters) {
        args.adapters = {.tables = device_plan.as<kernels::ExpertLoraTables>(),
                         .max_rank = plan.max_rank(),
                         .v = v.as<float>()};
      }
      args.chunk_rows = chunk_rows;
      Require(experts.Run(weights.layers[1], args));
      return kernels::Download<float>(*device, out);
    };
    const std::vector<float> whole = run(CudaExperts::kMaxChunkRows, true);
    EXPECT_NE(run(CudaExperts::kMaxChunkRows, false), whole);
    for (const int32_t chunk_rows : {1, 8, 13}) {
      EXPECT_EQ(run(chunk_rows, true), whole) << chunk_rows << " rows, seed " << kSeed;
    }
  }
}

ARIL_INSTANTIATE_CUDA_TEST(CudaExpertsTest);

TEST(CudaExperts, WithoutExpertsTakesNoMemory) {
  EXPECT_EQ(CudaExperts::SizeBytes(ModelSpec(), DType::kBF16, 64), 0U);
}

TEST(CudaExperts, VIsBoundedByComputingFewerRowsAtATime) {
  ModelSpec spec;
  spec.hidden_size = 2048;
  spec.intermediate_size = 768;
  spec.experts = {.count = 128, .per_token = 8};
  // Of long steps, whose rows have one partial V: gate and up.
  EXPECT_EQ(CudaExperts::ChunkRows(spec, 8192, 1, 64), CudaExperts::kMaxChunkRows);
  EXPECT_EQ(CudaExperts::VFloats(spec, 8192, 1, 64), int64_t{2048} * 8 * 2 * 64);
  EXPECT_EQ(CudaExperts::ChunkRows(spec, 8192, 8, 512), 512);
  EXPECT_EQ(CudaExperts::VFloats(spec, 8192, 8, 512), int64_t{32} << 20);
  // Of short ones a V for each 1,024 of 2,048, all rows at a time.
  EXPECT_EQ(CudaExperts::ChunkRows(spec, 40, 1, 16), 40);
  EXPECT_EQ(CudaExperts::VFloats(spec, 40, 1, 16), int64_t{40} * 8 * 2 * 2 * 16);
}

TEST(CudaExperts, SaysWhatIsTooMuch) {
  ModelSpec spec;
  EXPECT_TRUE(CudaExperts::Supports(spec).ok());
  spec.experts = {.count = 1024, .per_token = 32};
  EXPECT_TRUE(CudaExperts::Supports(spec).ok());
  spec.experts = {.count = 1024, .per_token = 33};
  EXPECT_EQ(Message(CudaExperts::Supports(spec)),
            "num_experts_per_tok is 33; on a GPU it must be at most 32: use --device cpu");
  spec.experts = {.count = 1025, .per_token = 8};
  EXPECT_EQ(Message(CudaExperts::Supports(spec)),
            "a layer has 1025 experts; on a GPU there must be at most 1024: use --device cpu");
}

}  // namespace
}  // namespace aril
