// A model on the CUDA backend, in the emulator and on a GPU, against the CPU's: every golden model
// and adapter in one batch.

#include "model/cuda_backend.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "adapters/test_support.h"
#include "base/test_dir.h"
#include "gtest/gtest.h"
#include "model/cuda_backend_test_fixture.h"

namespace aril {
namespace {

using kernels::CudaTest;
using kernels::Require;

constexpr uint64_t kSeed = 31;

std::vector<int32_t> RandomTokens(int64_t vocab_size, int64_t count, std::mt19937_64& random) {
  std::vector<int32_t> tokens(static_cast<size_t>(count));
  for (int32_t& token : tokens) {
    token = static_cast<int32_t>(random() % static_cast<uint64_t>(vocab_size));
  }
  return tokens;
}

// Which adapters a sequence uses, with their weights: each golden one, none (twice), a mix of those
// that change experts, and two of those that change the embedding or lm_head of the base model's
// vocabulary, so that matrices of their own come before and after what others add.
std::vector<std::vector<std::pair<int, float>>> Mixes(const Golden& golden) {
  std::vector<std::vector<std::pair<int, float>>> mixes;
  std::vector<std::pair<int, float>> outer, of_experts;
  for (size_t i = 0; i < golden.adapters.size(); ++i) {
    const std::pair<int, float> use{static_cast<int>(i), i % 2 == 0 ? 1.0F : 0.5F};
    mixes.push_back({use});
    const bool is_resized = golden.VocabSize({use}) != golden.spec.vocab_size;
    if (golden.adapters[i].spec().changes_outer() && !is_resized) outer.push_back(use);
    if (ChangesExperts(golden.adapters[i])) of_experts.push_back(use);
  }
  mixes.resize(mixes.size() + 2);
  if (of_experts.size() > 1) mixes.push_back(of_experts);
  if (outer.size() < 2) return mixes;
  mixes.push_back(outer);
  std::ranges::reverse(outer);
  mixes.push_back(outer);
  return mixes;
}

// Prompts in two chunks beside decodes; the first one's is longer than the goldens' windows. The
// decodes at the end are of one shape: the second is captured, the third a replay of it with other
// pages.
std::vector<std::vector<Piece>> Steps(const Golden& golden, std::mt19937_64& random) {
  std::vector<std::vector<Piece>> steps(6);
  const auto mixes = Mixes(golden);
  for (size_t s = 0; s < mixes.size(); ++s) {
    const int64_t lengths[] = {s == 0 ? 19 : s % 3 == 0 ? 9 : 1, s % 3 == 1 ? 7 : 1, 1, 1, 1, 1};
    for (size_t i = 0; i < steps.size(); ++i) {
      steps[i].push_back({static_cast<int>(s), mixes[s],
                          RandomTokens(golden.VocabSize(mixes[s]), lengths[i], random)});
    }
  }
  return steps;
}

double LargestMagnitude(const std::vector<float>& values) {
  double largest = 0;
  for (const float value : values) largest = std::max(largest, std::abs(double{value}));
  return largest;
}

// Of the largest logit. Both sides compute the same sums in another order: each of a layer's seven
// (those of linear attention are shorter), and the last, of so many products at most, errs by as
// many roundings. In BF16 what enters a sum
// may be rounded to either neighbour; in F16 inputs and weights are rounded on one side only.
double Tolerance(const ModelSpec& spec, DType dtype) {
  const auto sums = static_cast<double>(7 * spec.num_layers + 1);
  const auto widest = static_cast<double>(WidestInput(spec));
  const double f32 = 2 * kernels::kFloatEps * widest * sums;
  return dtype == DType::kF32 ? f32 : f32 + 2 * kernels::EpsOf(dtype) * sums;
}

// Within `tolerance` of the largest magnitude.
void ExpectNear(const std::vector<float>& found, const std::vector<float>& expected,
                double tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  const double bound = tolerance * LargestMagnitude(expected);
  for (size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], bound);
}

// Runs a step on the CPU and on all devices: these agree bit by bit, and with it within
// `tolerance`, in logits and in hidden states.
void ExpectAlike(const std::vector<Piece>& step, Side& cpu,
                 const std::vector<std::unique_ptr<Side>>& sides, double tolerance) {
  const std::vector<float> expected = cpu.Run(step);
  Side& device = *sides.front();
  const std::vector<float> first = device.Run(step);
  ASSERT_NO_FATAL_FAILURE(ExpectNear(first, expected, tolerance));
  ASSERT_NO_FATAL_FAILURE(ExpectNear(device.hidden_states(), cpu.hidden_states(), tolerance));
  for (size_t i = 1; i < sides.size(); ++i) {
    EXPECT_EQ(sides[i]->Run(step), first);
    EXPECT_EQ(sides[i]->hidden_states(), device.hidden_states());
  }
}

class CudaBackendTest : public CudaTest {};

// Which experts a row goes to is a matter of the last bit where two of them score alike, as some do
// once inputs are rounded to 16 bits: there every row goes to all of them.
void LeaveNoTies(ModelSpec& spec) {
  if (spec.experts) spec.experts->per_token = spec.experts->count;
}

TEST_P(CudaBackendTest, ComputesWhatTheCpuDoes) {
  std::vector<Golden> goldens = Goldens();
  for (Golden& golden : goldens) {
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
      if (dtype != DType::kF32) LeaveNoTies(golden.spec);
      SCOPED_TRACE(testing::Message() << golden.name << " in " << dtype << ", seed " << kSeed);
      std::mt19937_64 random(kSeed);
      // The CPU has no F16.
      Side cpu(golden, dtype == DType::kF16 ? DType::kF32 : dtype, nullptr);
      std::vector<std::unique_ptr<Side>> sides;
      for (const auto& device : devices()) {
        sides.push_back(std::make_unique<Side>(golden, dtype, device.get()));
      }
      for (const std::vector<Piece>& step : Steps(golden, random)) {
        ASSERT_NO_FATAL_FAILURE(ExpectAlike(step, cpu, sides, Tolerance(golden.spec, dtype)));
      }
      EXPECT_GE(sides.front()->num_replays(), 2);
    }
  }
}

// Embedding models.
TEST_P(CudaBackendTest, OfADecoderAloneHiddenStatesAreWhatTheCpuComputes) {
  for (const char* name : {"mistral-f32", "gemma2-f32"}) {
    const TestDir dir(SourcePath("tests/goldens/") + name);
    MakeDecoderAlone(dir.path());
    const Golden golden(dir.path(), SourcePath("tests/goldens/") + name + "/no-adapters");
    ASSERT_FALSE(golden.spec.has_lm_head);
    SCOPED_TRACE(testing::Message() << name << ", seed " << kSeed);
    std::mt19937_64 random(kSeed);
    Side cpu(golden, DType::kF32, nullptr);
    std::vector<std::unique_ptr<Side>> sides;
    for (const auto& device : devices()) {
      sides.push_back(std::make_unique<Side>(golden, DType::kF32, device.get()));
    }
    for (int step = 0; step < 3; ++step) {
      const std::vector<Piece> pieces = {
          {0, {}, RandomTokens(golden.spec.vocab_size, step == 0 ? 9 : 1, random)},
          {1, {}, RandomTokens(golden.spec.vocab_size, 3, random)}};
      ASSERT_NO_FATAL_FAILURE(ExpectAlike(pieces, cpu, sides, Tolerance(golden.spec, DType::kF32)));
      ASSERT_FALSE(cpu.hidden_states().empty());
    }
  }
}

// What four bits and bytes stand for is not rounded, so that the CPU's side has these numbers.
TEST_P(CudaBackendTest, QuantizedCheckpointsComputeWhatTheirNumbersDo) {
  for (const Golden& plain : QuantizedGoldens()) {
    const TestDir adapters;
    for (const bool use_dora : {false, true}) {
      const std::string dir = adapters / (use_dora ? "dora" : "lora");
      std::filesystem::create_directory(dir);
      WriteRandomAdapter(dir, plain.spec, use_dora, kSeed);
    }
    Golden golden(plain.path, adapters.path());
    Golden numbers(std::filesystem::path(plain.path) / "dequantized", adapters.path());
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
      if (dtype != DType::kF32) {
        LeaveNoTies(golden.spec);
        LeaveNoTies(numbers.spec);
      }
      SCOPED_TRACE(testing::Message() << golden.name << " in " << dtype << ", seed " << kSeed);
      std::mt19937_64 random(kSeed);
      Side cpu(numbers, DType::kF32, nullptr);
      std::vector<std::unique_ptr<Side>> sides;
      for (const auto& device : devices()) {
        sides.push_back(std::make_unique<Side>(golden, dtype, device.get()));
      }
      for (const std::vector<Piece>& step : Steps(golden, random)) {
        ASSERT_NO_FATAL_FAILURE(ExpectAlike(step, cpu, sides, Tolerance(golden.spec, dtype)));
      }
      EXPECT_GE(sides.front()->num_replays(), 2);
    }
  }
}

double RootMeanSquare(const std::vector<float>& values) {
  double squares = 0;
  for (const float value : values) squares += double{value} * value;
  return std::sqrt(squares / static_cast<double>(values.size()));
}

// Both sides round weights alike, and the CPU rounds inputs of products to bytes, too, which
// changes logits by some hundredths. Were weights others, logits would have nothing in common.
TEST_P(CudaBackendTest, RoundsWeightsAsTheCpuDoes) {
  for (const char* const name :
       {"llama-f32-sharded", "gemma3-f32", "qwen3-moe-f32", "qwen35-f32"}) {
    Golden golden(SourcePath("tests/goldens") + "/" + name);
    LeaveNoTies(golden.spec);
    for (const Quantization quantization : {Quantization::kInt8, Quantization::kInt4}) {
      SCOPED_TRACE(testing::Message()
                   << golden.name << " in " << Name(quantization) << ", seed " << kSeed);
      std::mt19937_64 random(kSeed);
      Side cpu(golden, DType::kF32, nullptr, quantization);
      std::vector<std::unique_ptr<Side>> sides;
      for (const auto& device : devices()) {
        sides.push_back(std::make_unique<Side>(golden, DType::kF32, device.get(), quantization));
      }
      for (const std::vector<Piece>& step : Steps(golden, random)) {
        const std::vector<float> expected = cpu.Run(step), first = sides.front()->Run(step);
        std::vector<float> differences = first;
        for (size_t i = 0; i < first.size(); ++i) differences[i] -= expected[i];
        EXPECT_LT(RootMeanSquare(differences), 0.1 * RootMeanSquare(expected));
        for (size_t i = 1; i < sides.size(); ++i) EXPECT_EQ(sides[i]->Run(step), first);
      }
    }
  }
}

// Alone, as steps of one row, which are captured and replayed.
TEST_P(CudaBackendTest, ARowWithTwoAdaptersOfExpertsComputesWhatTheCpuDoes) {
  const Golden golden(SourcePath("tests/goldens/qwen3-moe-f32"));
  std::vector<std::pair<int, float>> of_experts;
  for (size_t i = 0; i < golden.adapters.size() && of_experts.size() < 2; ++i) {
    if (ChangesExperts(golden.adapters[i])) of_experts.push_back({static_cast<int>(i), 0.5F});
  }
  ASSERT_EQ(of_experts.size(), 2U);
  std::mt19937_64 random(kSeed);
  Side cpu(golden, DType::kF32, nullptr);
  std::vector<std::unique_ptr<Side>> sides;
  for (const auto& device : devices()) {
    sides.push_back(std::make_unique<Side>(golden, DType::kF32, device.get()));
  }
  for (const int64_t rows : {3, 1, 1, 1, 1}) {
    const std::vector<Piece> step = {
        {0, of_experts, RandomTokens(golden.spec.vocab_size, rows, random)}};
    ASSERT_NO_FATAL_FAILURE(ExpectAlike(step, cpu, sides, Tolerance(golden.spec, DType::kF32)));
  }
  EXPECT_GE(sides.front()->num_replays(), 2);
}

// Layers that see all keys have two splits there, and those with a window begin in the second.
TEST_P(CudaBackendTest, BeyondASplitLayersOfBothKindsComputeWhatTheCpuDoes) {
  const Golden golden(SourcePath("tests/goldens/gemma3-f32"));
  ASSERT_EQ(AttentionPlansOf(golden.spec), (std::array{true, true}));
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    SCOPED_TRACE(testing::Message() << dtype << ", seed " << kSeed);
    std::mt19937_64 random(kSeed);
    Side cpu(golden, dtype, nullptr);
    std::vector<std::unique_ptr<Side>> sides;
    for (const auto& device : devices()) {
      sides.push_back(std::make_unique<Side>(golden, dtype, device.get()));
    }
    for (const int64_t rows : {94, 94, 90, 1, 1, 1}) {
      const std::vector<Piece> step = {
          {0, {{0, 1.0F}}, RandomTokens(golden.spec.vocab_size, rows, random)},
          {1, {}, RandomTokens(golden.spec.vocab_size, 1, random)}};
      ASSERT_NO_FATAL_FAILURE(ExpectAlike(step, cpu, sides, Tolerance(golden.spec, dtype)));
    }
    EXPECT_GE(sides.front()->num_replays(), 1);
  }
}

// Alone, in chunks of other sizes: the same bits as in a batch.
TEST_P(CudaBackendTest, NobodyElseInTheBatchChangesABit) {
  std::vector<std::pair<Golden, Quantization>> models;
  for (Golden& golden : Goldens()) models.emplace_back(std::move(golden), Quantization::kNone);
  models.emplace_back(SourcePath("tests/goldens/llama-f32-sharded"), Quantization::kInt8);
  models.emplace_back(SourcePath("tests/goldens/qwen3-moe-f32"), Quantization::kInt4);
  models.emplace_back(SourcePath("tests/goldens/llama-f32-sharded"), Quantization::kNf4);
  for (const auto& [golden, quantization] : models) {
    SCOPED_TRACE(testing::Message()
                 << golden.name << ", " << Name(quantization) << ", seed " << kSeed);
    std::mt19937_64 random(kSeed);
    const std::vector<std::vector<Piece>> steps = Steps(golden, random);
    Side together(golden, DType::kBF16, devices().front().get(), quantization);
    std::map<int, std::vector<float>> expected;  // by sequence
    for (const std::vector<Piece>& step : steps) {
      const std::vector<float> logits = together.Run(step);
      auto from = logits.begin();
      for (const Piece& piece : step) {
        const auto to = from + std::ssize(piece.tokens) * golden.VocabSize(piece.adapters);
        auto& all = expected[piece.sequence];
        all.insert(all.end(), from, to);
        from = to;
      }
    }
    Side alone(golden, DType::kBF16, devices().front().get(), quantization);
    for (const auto& [sequence, logits] : expected) {
      Piece all = steps[0][static_cast<size_t>(sequence)];
      all.tokens.clear();
      for (const std::vector<Piece>& step : steps) {
        const Piece& piece = step[static_cast<size_t>(sequence)];
        all.tokens.insert(all.tokens.end(), piece.tokens.begin(), piece.tokens.end());
      }
      EXPECT_EQ(alone.Run({all}), logits) << "sequence " << sequence;
    }
  }
}

// Decodes beside prefills: a step that is larger than all before it changes nothing for the graphs.
TEST_P(CudaBackendTest, ALargeStepLeavesTheGraphsOfSmallOnes) {
  const std::vector<Golden> goldens = Goldens();
  const Golden& golden = goldens.front();
  std::mt19937_64 random(kSeed);
  Side side(golden, DType::kBF16, devices().front().get());
  const auto run = [&](int first_sequence, int64_t num_tokens) {
    std::vector<Piece> step;
    for (int i = 0; i < 2; ++i) {
      step.push_back({first_sequence + i,
                      {{i, 1.0F}},
                      RandomTokens(golden.spec.vocab_size, num_tokens, random)});
    }
    side.Run(step);
  };
  for (int i = 0; i < 3; ++i) run(0, 1);
  EXPECT_EQ(side.num_replays(), 2);
  run(2, kMaxRows / 2);
  EXPECT_EQ(side.num_replays(), 2);
  run(0, 1);
  EXPECT_EQ(side.num_replays(), 3);
}

// Of any usual rank, and whichever projections it changes: only that there is one makes a shape,
// that it changes experts, and what it has outside of the layers.
TEST_P(CudaBackendTest, AnAdapterThatComesIsNoNewShape) {
  for (const Golden& golden : Goldens()) {
    SCOPED_TRACE(golden.name);
    std::mt19937_64 random(kSeed);
    Side side(golden, DType::kBF16, devices().front().get());
    int sequence = 0;
    const auto run = [&](int adapter) {
      side.Run({{sequence++, {{adapter, 1.0F}}, RandomTokens(golden.spec.vocab_size, 1, random)}});
    };
    std::map<bool, std::vector<int>> of_layers;  // by whether they change experts
    for (size_t i = 0; i < golden.adapters.size(); ++i) {
      const Adapter& adapter = golden.adapters[i];
      if (!adapter.spec().changes_outer()) {
        of_layers[ChangesExperts(adapter)].push_back(static_cast<int>(i));
      }
    }
    for (const auto& [changes_experts, adapters] : of_layers) {
      for (int i = 0; i < 2; ++i) run(adapters.front());
      for (const int adapter : adapters) {
        const int64_t before = side.num_replays();
        run(adapter);
        EXPECT_EQ(side.num_replays(), before + 1) << "adapter " << adapter;
      }
    }
  }
}

// The emulator's graphs take memory, too. Without any, steps are launched one by one.
TEST(CudaBackend, GoesOnWithoutGraphsWhenTheDeviceHasNoMemoryForThem) {
  const std::vector<Golden> goldens = Goldens();
  const Golden& golden = goldens.front();
  std::mt19937_64 random(kSeed);
  const std::vector<std::vector<Piece>> steps = Steps(golden, random);
  const auto with = kernels::MakeEmulatedDevice(kernels::emulator::Order::kForward, 2);
  const auto without = kernels::MakeEmulatedDevice(kernels::emulator::Order::kForward, 2);
  Side expected(golden, DType::kBF16, with.get());
  Side side(golden, DType::kBF16, without.get());
  // Once the tables have grown.
  EXPECT_EQ(side.Run(steps[0]), expected.Run(steps[0]));
  constexpr int64_t kTooLittle = 100 << 10;
  const int64_t free = Value(without->FreeBytes());
  auto others = kernels::Allocate(*without, static_cast<size_t>(free - kTooLittle));
  for (size_t i = 1; i < steps.size(); ++i) {
    EXPECT_EQ(side.Run(steps[i]), expected.Run(steps[i])) << "step " << i;
  }
  EXPECT_GE(expected.num_replays(), 2);
  EXPECT_EQ(side.num_replays(), 0);
}

ARIL_INSTANTIATE_CUDA_TEST(CudaBackendTest);

}  // namespace
}  // namespace aril
