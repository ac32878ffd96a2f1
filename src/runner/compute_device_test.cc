// Which device a runner takes, and a whole runner on the emulator.

#include "runner/compute_device.h"

#include <cstdlib>
#include <map>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/test_paths.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cuda/emulated_device.h"
#include "kernels/gemm/gemm_emulated.h"
#include "model/pool_layout.h"
#include "runner/local_runner.h"

namespace aril {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const std::string kModel = SourcePath("tests/goldens/llama-f32-sharded");
const std::string kAdapters = kModel + "/adapters/";

StatusOr<Gpu> OpenEmulatedOf(int64_t memory_bytes) {
  Gpu gpu;
  gpu.device = kernels::MakeEmulatedDevice(kernels::emulator::Order::kForward, 2, memory_bytes);
  gpu.gemm = kernels::MakeEmulatedGemm(*gpu.device);
  return gpu;
}

StatusOr<Gpu> OpenEmulated() { return OpenEmulatedOf(int64_t{64} << 20); }

StatusOr<Gpu> OpenNone() { return Unavailable("no CUDA device: the driver lists none"); }

LocalRunnerOptions Options(const std::string& device) {
  return {.model_dir = kModel,
          .adapter_dirs = {kAdapters + "all-r4", kAdapters + "down-r1", kAdapters + "qv-r64-bf16",
                           kAdapters + "head-embedding-r6", kAdapters + "dora-head-r3",
                           kAdapters + "dora-embedding-r5", kAdapters + "saved-r2"},
          .device = device,
          .threads = 1,
          .max_num_seqs = 4,
          .max_num_batched_tokens = 16,
          .max_model_len = 64,
          .pool_bytes = 1 << 20,
          .run_aside = Residency::AtOnce,
          .open_gpu = OpenEmulated};
}

StatusOr<std::unique_ptr<LocalRunner>> Create(const LocalRunnerOptions& options) {
  static const RealClock clock;
  return LocalRunner::Create(options, clock);
}

LocalRunnerOptions MixtureOptions(const std::string& device) {
  LocalRunnerOptions options = Options(device);
  options.model_dir = SourcePath("tests/goldens/qwen3-moe-f32");
  options.adapter_dirs.clear();
  for (const char* adapter : {"all-r4", "attention-r4", "experts-r3-rslora-bf16", "modules-r4"}) {
    options.adapter_dirs.push_back(options.model_dir + "/adapters/" + adapter);
  }
  return options;
}

LocalRunnerOptions QuantizedOptions(const std::string& device) {
  LocalRunnerOptions options = Options(device);
  options.model_dir = SourcePath("tests/goldens-quantized/awq-llama");
  options.adapter_dirs.clear();
  return options;
}

// What the sequences use: each of so many adapters, the base model, and two of them together.
std::vector<AdapterMix> Mixes(int32_t adapters, int32_t first, int32_t second) {
  std::vector<AdapterMix> mixes;
  for (int32_t id = 0; id < adapters; ++id) mixes.push_back(MixOf(AdapterId(id)));
  mixes.push_back({});
  mixes.push_back({{.id = AdapterId(first)}, {.id = AdapterId(second), .weight = 0.5F}});
  return mixes;
}

// By sequence. `invocation`: a token within each prompt.
std::map<int64_t, std::vector<int32_t>> Generate(LocalRunner& runner,
                                                 const std::vector<AdapterMix>& mixes,
                                                 std::optional<int32_t> invocation = std::nullopt) {
  Engine& engine = runner.engine();
  for (int64_t id = 0; id < static_cast<int64_t>(mixes.size()); ++id) {
    wire::SequenceRequest request;
    request.sequence = SequenceId(id);
    request.adapters = mixes[static_cast<size_t>(id)];
    for (int32_t i = 0; i < 5 + 4 * id; ++i) {
      request.prompt.push_back(static_cast<int32_t>((7 * id + 13 * i) % 131));
    }
    if (invocation) request.prompt[request.prompt.size() * 3 / 5] = *invocation;
    request.max_tokens = 6;
    // Two choose on the device, two on the host.
    request.sampling.temperature = id == 2 ? 0.7F : 0;
    request.sampling.seed = 5;
    if (id == 1) request.sampling.num_logprobs = 2;
    auto accepted = engine.Accept(std::move(request));
    EXPECT_TRUE(accepted.ok()) << accepted.status();
    engine.Add(*std::move(accepted));
  }
  std::map<int64_t, std::vector<int32_t>> tokens;
  while (engine.HasWork()) {
    for (const wire::TokenEvent& event : engine.Step()) {
      EXPECT_TRUE(event.error.ok()) << event.error;
      if (event.token) tokens[event.sequence.value()].push_back(*event.token);
    }
  }
  return tokens;
}

TEST(ComputeDevice, AnEmulatedGpuGeneratesWhatTheCpuDoes) {
  const auto gpu = Create(Options("cuda")), cpu = Create(Options("cpu"));
  ASSERT_TRUE(gpu.ok()) << gpu.status();
  ASSERT_TRUE(cpu.ok()) << cpu.status();
  EXPECT_THAT((*gpu)->Description(), HasSubstr("emulator"));
  EXPECT_NE((*gpu)->NumericClass(), (*cpu)->NumericClass());
  // Two that both change embedding and lm_head.
  const std::vector<AdapterMix> mixes = Mixes(7, 6, 3);
  const auto expected = Generate(**cpu, mixes);
  ASSERT_EQ(expected.size(), mixes.size());
  EXPECT_EQ(Generate(**gpu, mixes), expected);
}

// Segments begin within sequences, and within those of other adapters of the same rows.
TEST(ComputeDevice, AnEmulatedGpuGeneratesWhatTheCpuDoesOfActivatedAdapters) {
  LocalRunnerOptions options = Options("cuda");
  options.adapter_dirs = {kAdapters + "activated-head-r4", kAdapters + "all-r4",
                          kAdapters + "dora-head-r3"};
  const auto gpu = Create(options);
  options.device = "cpu";
  const auto cpu = Create(options);
  ASSERT_TRUE(gpu.ok()) << gpu.status();
  ASSERT_TRUE(cpu.ok()) << cpu.status();
  constexpr AdapterId kActivated(0), kPlain(1), kDora(2);
  const std::vector<AdapterMix> mixes = {{},
                                         {{kActivated}},
                                         {{kPlain}},
                                         {{kPlain}, {kActivated, 0.5F}},
                                         {{kActivated}, {kPlain}},
                                         {{kActivated}, {kDora}}};
  const auto expected = Generate(**cpu, mixes, 150);
  ASSERT_EQ(expected.size(), mixes.size());
  EXPECT_EQ(Generate(**gpu, mixes, 150), expected);
}

TEST(ComputeDevice, AnEmulatedGpuGeneratesWhatTheCpuDoesOfAMixture) {
  const auto gpu = Create(MixtureOptions("cuda")), cpu = Create(MixtureOptions("cpu"));
  ASSERT_TRUE(gpu.ok()) << gpu.status();
  ASSERT_TRUE(cpu.ok()) << cpu.status();
  // Two that both change experts, which are alone at the end.
  const std::vector<AdapterMix> mixes = Mixes(4, 0, 2);
  const auto expected = Generate(**cpu, mixes);
  ASSERT_EQ(expected.size(), mixes.size());
  EXPECT_EQ(Generate(**gpu, mixes), expected);
}

TEST(ComputeDevice, AutoIsTheGpuIfThereIsOne) {
  LocalRunnerOptions options = Options("auto");
  EXPECT_THAT((*Create(options))->Description(), HasSubstr("emulator"));
  options.open_gpu = OpenNone;
  const auto fallen_back = Create(options);
  ASSERT_TRUE(fallen_back.ok()) << fallen_back.status();
  EXPECT_THAT((*fallen_back)->Description(), Not(HasSubstr("emulator")));
}

TEST(ComputeDevice, AnEmulatedGpuHasQuantizedWeights) {
  LocalRunnerOptions options = QuantizedOptions("cuda");
  options.dtype = "float32";
  const auto gpu = Create(options);
  ASSERT_TRUE(gpu.ok()) << gpu.status();
  EXPECT_THAT((*gpu)->Description(),
              AllOf(HasSubstr("emulator"), HasSubstr("with the checkpoint's quantized weights")));
  options.device = "cpu";
  options.model_dir += "/dequantized";
  const auto numbers = Create(options);
  ASSERT_TRUE(numbers.ok()) << numbers.status();
  EXPECT_EQ(Generate(**gpu, {{}, {}}), Generate(**numbers, {{}, {}}));
}

TEST(ComputeDevice, AnEmulatedGpuRoundsWeights) {
  LocalRunnerOptions options = Options("auto");
  for (const char* const quantization : {"int8", "int4"}) {
    options.quantization = quantization;
    const auto gpu = Create(options);
    ASSERT_TRUE(gpu.ok()) << gpu.status();
    EXPECT_THAT(
        (*gpu)->Description(),
        AllOf(HasSubstr("emulator"), HasSubstr(std::string("with ") + quantization + " weights")));
    EXPECT_EQ(Generate(**gpu, Mixes(7, 6, 3)).size(), 9U);
  }
}

// It has no kernel for codes, and yet gives what they stand for.
TEST(ComputeDevice, AnEmulatedGpuRoundsToNf4) {
  LocalRunnerOptions options = Options("auto");
  options.adapter_dirs.clear();
  options.model_dir = SourcePath("tests/goldens-quantized/bnb-nf4-llama/dequantized");
  options.quantization = "nf4";
  const auto gpu = Create(options);
  ASSERT_TRUE(gpu.ok()) << gpu.status();
  EXPECT_THAT((*gpu)->Description(), AllOf(HasSubstr("emulator"), HasSubstr("with nf4 weights")));
  options.device = "cpu";
  const auto cpu = Create(options);
  ASSERT_TRUE(cpu.ok()) << cpu.status();
  EXPECT_EQ(Generate(**gpu, {{}, {}}), Generate(**cpu, {{}, {}}));
}

// A large GPU keeps a tenth for all else, a smaller one two gigabytes, a tiny one half.
TEST(ComputeDevice, LeavesMemoryBesideThePool) {
  constexpr int64_t kMiB = int64_t{1} << 20;
  const auto memory_of = [](int64_t bytes) {
    ThreadPool threads(1);
    kernels::CpuContext context(threads, kernels::AvailableIsas().front());
    const auto spec = LoadModelSpec(kModel);
    const auto device = ChooseDevice("cuda", context, [bytes] { return OpenEmulatedOf(bytes); });
    return *(*device)->MemoryForPool(
        *Checkpoint::Open(kModel), *spec,
        {.layout = *ChooseKvLayout(*spec, DType::kF32), .max_rows = 16, .max_positions = 64});
  };
  const auto expect = [&](int64_t free_mib, int64_t by_default_mib, int64_t most_mib) {
    const PoolMemory memory = memory_of(free_mib * kMiB);
    // The model and its activations have less than 16 MiB.
    EXPECT_LE(std::abs(*memory.by_default - by_default_mib * kMiB), 16 * kMiB);
    EXPECT_LE(std::abs(memory.most - most_mib * kMiB), 16 * kMiB);
  };
  expect(100'000, 90'000, 95'000);
  expect(10'000, 10'000 - 2048, 10'000 - 1024);
  expect(1'000, 500, 500);
}

TEST(ComputeDevice, RefusesWhatTheGpuCannotDo) {
  const auto error_with = [](const std::function<void(LocalRunnerOptions&)>& change) {
    LocalRunnerOptions options = Options("cuda");
    change(options);
    const auto runner = Create(options);
    EXPECT_FALSE(runner.ok());
    return runner.ok() ? "" : Message(runner.status());
  };
  EXPECT_THAT(error_with([](auto& o) { o.open_gpu = OpenNone; }),
              AllOf(HasSubstr("--device cuda"), HasSubstr("the driver lists none")));
  EXPECT_THAT(error_with([](auto& o) { o.device = "rocm"; }), HasSubstr("auto, cpu or cuda"));
  EXPECT_THAT(error_with([](auto& o) { o.pool_bytes = int64_t{1} << 30; }),
              AllOf(HasSubstr("--pool-bytes"), HasSubstr("the GPU has")));
  EXPECT_THAT(error_with([](auto& o) { o.max_num_batched_tokens = 65536; }),
              AllOf(HasSubstr("MiB free"), HasSubstr("--max-num-batched-tokens")));
}

}  // namespace
}  // namespace aril
