#include "apps/step_roofline.h"

#include <map>
#include <string>

#include "apps/synth_shapes.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

using kernels::WeightFormat;
using ::testing::DoubleNear;

ModelSpec TinyLlama() {
  const auto spec = ParseModelSpec(*SynthShapeConfig("tinyllama-1.1b", DType::kBF16), nullptr);
  EXPECT_TRUE(spec.ok()) << spec.status();
  return *spec;
}

// Two cores of a Zen 5 EPYC.
const MachineLimits kLimits = {
    .threads = 2, .read_bytes_per_s = 83.8e9, .f32_per_s = 522e9, .bf16_per_s = 960e9};

double Seconds(const StepLoad& load) {
  return StepSeconds(StepCosts(TinyLlama(), {}, load, kLimits));
}

// By hand: 1.034e9 weights of the projections and the head, 2 bytes each, over 83.8 GB/s are
// 24.7 ms. Of 512 rows the projections’ 0.969e9 take 2·512·0.969e9 / 960e9 = 1.034 s, attention 25
// ms, and one row of the head 1.6 ms.
TEST(StepRoofline, IsWeightsOverBandwidthForOneRowAndOperationsOverPeakForMany) {
  EXPECT_THAT(Seconds({.sequences = {{.rows = 1, .context = 1}}}), DoubleNear(24.7e-3, 0.1e-3));
  EXPECT_THAT(Seconds({.sequences = {{.rows = 512, .context = 512}}}), DoubleNear(1.060, 0.002));
}

TEST(StepRoofline, CountsAdaptersAndContext) {
  StepLoad load{.sequences = std::vector<StepLoad::SequenceLoad>(16, {.rows = 1, .context = 1})};
  const double base = Seconds(load);
  load.adapters.assign(16, {.rank = 16, .rows = 1});
  // 16 times 25.2 MB.
  EXPECT_THAT(Seconds(load) - base, DoubleNear(16 * 25.23e6 / 83.8e9, 0.02e-3));
  load.adapters.clear();
  for (auto& sequence : load.sequences) sequence.context = 1025;
  // 1024 tokens of 22 layers · 2 · 256 elements for each of 16 sequences.
  EXPECT_THAT(Seconds(load) - base, DoubleNear(16 * 1024 * 22 * 512 * 2 / 83.8e9, 0.02e-3));
}

// An adapter's A of a fused module is read once: per layer and rank 3072 + 9216, 3072 + 3072,
// 3072 + 16384 and 8192 + 3072 elements of 2 bytes.
TEST(StepRoofline, CountsTheModulesThatFilesHave) {
  const auto spec = ParseModelSpec(*SynthShapeConfig("phi-3-mini-4k", DType::kBF16), nullptr);
  ASSERT_TRUE(spec.ok()) << spec.status();
  const StepLoad load{.sequences = {{.rows = 1, .context = 1}},
                      .adapters = {{.rank = 16, .rows = 1}}};
  double bytes = 0;
  for (const OperatorCost& cost : StepCosts(*spec, {}, load, kLimits)) {
    if (cost.name == "adapters") bytes += cost.bytes;
  }
  EXPECT_EQ(bytes, 32.0 * 16 * 49152 * 2);
}

// A row reads 8 of 128 experts, two rows 16 less those that both choose, many rows all; each row
// has the operations of 8.
TEST(StepRoofline, ReadsTheExpertsThatRowsGoTo) {
  const auto spec = ParseModelSpec(*SynthShapeConfig("qwen3-30b-a3b", DType::kBF16), nullptr);
  ASSERT_TRUE(spec.ok()) << spec.status();
  const auto experts = [&](int64_t rows) {
    const StepLoad load{.sequences = {{.rows = rows, .context = rows}}};
    for (const OperatorCost& cost : StepCosts(*spec, {}, load, kLimits)) {
      EXPECT_NE(cost.name, "gate_up");
      if (cost.name == "experts") return cost;
    }
    ADD_FAILURE() << "no experts";
    return OperatorCost();
  };
  const double bytes = 48.0 * 3 * 2048 * 768 * 2;  // of one in all layers
  EXPECT_THAT(experts(1).bytes / bytes, DoubleNear(8, 1e-9));
  EXPECT_THAT(experts(2).bytes / bytes, DoubleNear(15.5, 1e-9));
  EXPECT_THAT(experts(1000).bytes / bytes, DoubleNear(128, 1e-9));
  EXPECT_THAT(experts(1000).operations / bytes, DoubleNear(8000, 1e-6));
}

// Of an adapter to all linear modules those parts that its rows go to: per rank 17,408 elements of
// attention, 2,176 of the router, and 8,448 of each expert in use.
TEST(StepRoofline, ReadsAdaptersOfTheExpertsThatRowsGoTo) {
  const auto spec = ParseModelSpec(*SynthShapeConfig("qwen3-30b-a3b", DType::kBF16), nullptr);
  ASSERT_TRUE(spec.ok()) << spec.status();
  const StepLoad load{.sequences = {{.rows = 1, .context = 1}, {.rows = 2, .context = 2}},
                      .adapters = {{.rank = 4, .rows = 1}, {.rank = 4, .rows = 2}}};
  for (const OperatorCost& cost : StepCosts(*spec, {}, load, kLimits)) {
    if (cost.name != "adapters") continue;
    EXPECT_THAT(cost.bytes / (48.0 * 4 * 2),
                DoubleNear(2 * (17408 + 2176) + (8 + 15.5) * 8448, 1e-3));
    EXPECT_THAT(cost.operations / (48.0 * 4 * 2),
                DoubleNear(3 * (17408 + 2176) + 3 * 8 * 8448, 1e-3));
    return;
  }
  ADD_FAILURE() << "no adapters";
}

TEST(StepRoofline, CountsTheTargetsOfAdapters) {
  const auto spec = ParseModelSpec(*SynthShapeConfig("qwen3-30b-a3b", DType::kBF16), nullptr);
  ASSERT_TRUE(spec.ok()) << spec.status();
  const auto bytes = [&](const std::vector<std::string>& targets) {
    const StepLoad load{.sequences = {{.rows = 1, .context = 1}},
                        .adapters = {{.rank = 4, .rows = 1}},
                        .adapter_targets = targets};
    for (const OperatorCost& cost : StepCosts(*spec, {}, load, kLimits)) {
      if (cost.name == "adapters") return cost.bytes / (48.0 * 4 * 2);
    }
    return 0.0;
  };
  EXPECT_EQ(bytes({"q_proj", "self_attn.o_proj"}), 2 * 6144);
  EXPECT_EQ(bytes({"gate"}), 2176);
  EXPECT_EQ(bytes({"gate_proj"}), 8 * 2816);
}

// Of Qwen3.5-0.8B, 18 layers of 24 have linear attention.
TEST(StepRoofline, ReadsAndWritesStates) {
  const auto spec = ParseModelSpec(*SynthShapeConfig("qwen3.5-0.8b", DType::kBF16), nullptr);
  ASSERT_TRUE(spec.ok()) << spec.status();
  const StepLoad load{.sequences = {{.rows = 1, .context = 100}, {.rows = 3, .context = 200}},
                      .adapters = {{.rank = 4, .rows = 1}}};
  std::map<std::string, OperatorCost> costs;
  for (const OperatorCost& cost : StepCosts(*spec, {}, load, kLimits)) costs[cost.name] = cost;
  EXPECT_EQ(costs["gated delta"].bytes, 18 * 2 * 2 * 16 * 128 * 128 * 4.0);
  EXPECT_EQ(costs["gated delta"].operations, 18 * 4 * 6 * 16 * 128 * 128.0);
  EXPECT_EQ(costs["delta in"].bytes, 18 * 1024 * 8192 * 2.0);
  EXPECT_EQ(costs["delta gates"].bytes, 18 * 1024 * 32 * 2.0);
  EXPECT_EQ(costs["delta out"].bytes, 18 * 2048 * 1024 * 2.0);
  EXPECT_EQ(costs["qkv"].bytes, 6 * 1024 * (4096 + 1024) * 2.0) << "queries have gates";
  EXPECT_EQ(costs["attention"].bytes, 6 * 300 * 2 * 512 * 2.0);
  const double of_mlp = 3 * (1024 + 3584), of_attention = 1024 * 3 + 4096 + 2 * 512 + 2048 + 1024,
               of_delta = 1024 * 4 + 6144 + 2048 + 2 * 16 + 2048 + 1024;
  EXPECT_EQ(costs["adapters"].bytes, 4 * 2 * (24 * of_mlp + 6 * of_attention + 18 * of_delta));
}

TEST(StepRoofline, ReadsNoMoreThanAWindow) {
  ModelSpec spec = TinyLlama();
  const auto costs = [&](const StepLoad& load) {
    double bytes = 0, operations = 0;
    for (const OperatorCost& cost : StepCosts(spec, {}, load, kLimits)) {
      if (!cost.name.starts_with("attention")) continue;
      bytes += cost.bytes;
      operations += cost.operations;
    }
    return std::pair(bytes, operations);
  };
  const StepLoad decode{.sequences = {{.rows = 1, .context = 1025}}};
  const StepLoad prefill{.sequences = {{.rows = 10, .context = 1025}}};
  // K and V of a token in a layer are 2 · 256 elements; a row's scores and sum 4 · 2048 operations.
  EXPECT_EQ(costs(decode), std::pair(22 * 1025 * 1024.0, 22 * 1025 * 8192.0));
  spec.sliding_window = 100;
  EXPECT_EQ(costs(decode), std::pair(22 * 100 * 1024.0, 22 * 100 * 8192.0));
  EXPECT_EQ(costs(prefill), std::pair(22 * 109 * 1024.0, 22 * 1000 * 8192.0));
  spec.full_attention.assign(22, false);
  spec.full_attention[3] = spec.full_attention[4] = true;
  EXPECT_EQ(costs(decode),
            std::pair((20 * 100 + 2 * 1025) * 1024.0, (20 * 100 + 2 * 1025) * 8192.0));
  EXPECT_EQ(costs({.sequences = {{.rows = 1, .context = 50}}}),
            std::pair(22 * 50 * 1024.0, 22 * 50 * 8192.0));
}

TEST(StepRoofline, FallsBackToFloat32WhereThereIsNoBf16) {
  MachineLimits limits = kLimits;
  limits.bf16_per_s = 0;
  const StepLoad load{.sequences = {{.rows = 512, .context = 512}}};
  const double seconds = StepSeconds(StepCosts(TinyLlama(), {}, load, limits));
  EXPECT_THAT(seconds / Seconds(load), DoubleNear(960.0 / 522, 0.03));
}

TEST(StepRoofline, WeightsOfFewerBitsAreReadInLessTime) {
  MachineLimits limits = kLimits;
  limits.int8_per_s = 2050e9;
  const auto seconds = [&](int64_t rows, const StepFormats& formats) {
    const StepLoad load{.sequences = {{.rows = rows, .context = rows}}};
    return StepSeconds(StepCosts(TinyLlama(), formats, load, limits));
  };
  // 0.969e9 weights of the layers; lm_head stays.
  const StepFormats bytes = {.layers = WeightFormat::kInt8};
  EXPECT_THAT(seconds(1, {}) - seconds(1, bytes), DoubleNear(0.969e9 / 83.8e9, 1e-4));
  EXPECT_THAT(seconds(512, {}) / seconds(512, bytes), DoubleNear(2.08, 0.05));
  // Nineteen bytes for 32 weights of four bits, and lm_head's 65.5e6 in a byte each.
  const StepFormats nibbles = {.layers = WeightFormat::kInt4, .lm_head = WeightFormat::kInt8};
  EXPECT_THAT(seconds(1, nibbles), DoubleNear((0.969e9 * 19 / 32 + 65.5e6) / 83.8e9, 1e-4));
}

}  // namespace
}  // namespace aril
