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

#include "gtest/gtest.h"
#include "model/cuda_backend_test_fixture.h"

namespace aril {
namespace {

using kernels::CudaTest;
using kernels::Require;

constexpr uint64_t kSeed = 31;

std::vector<int32_t> RandomTokens(const ModelSpec& spec, int64_t count, std::mt19937_64& random) {
  std::vector<int32_t> tokens(static_cast<size_t>(count));
  for (int32_t& token : tokens) {
    token = static_cast<int32_t>(random() % static_cast<uint64_t>(spec.vocab_size));
  }
  return tokens;
}

// Which adapters a sequence uses, with their weights: each golden one, none (twice), and two mixes
// of those that change the embedding or lm_head, so that matrices of their own come before and
// after what others add.
std::vector<std::vector<std::pair<int, float>>> Mixes(const Golden& golden) {
  std::vector<std::vector<std::pair<int, float>>> mixes;
  std::vector<std::pair<int, float>> outer;
  for (size_t i = 0; i < golden.adapters.size(); ++i) {
    const std::pair<int, float> use{static_cast<int>(i), i % 2 == 0 ? 1.0F : 0.5F};
    mixes.push_back({use});
    if (ChangesOuter(golden.adapters[i])) outer.push_back(use);
  }
  mixes.resize(mixes.size() + 2);
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
      steps[i].push_back(
          {static_cast<int>(s), mixes[s], RandomTokens(golden.spec, lengths[i], random)});
    }
  }
  return steps;
}

double LargestMagnitude(const std::vector<float>& values) {
  double largest = 0;
  for (const float value : values) largest = std::max(largest, std::abs(double{value}));
  return largest;
}

// Of the largest logit. Both sides compute the same sums in another order: each of a layer's seven,
// and the last, of so many products at most, errs by as many roundings. In BF16 what enters a sum
// may be rounded to either neighbour; in F16 inputs and weights are rounded on one side only.
double Tolerance(const ModelSpec& spec, DType dtype) {
  const auto sums = static_cast<double>(7 * spec.num_layers + 1);
  const auto widest = static_cast<double>(WidestInput(spec));
  const double f32 = 2 * kernels::kFloatEps * widest * sums;
  return dtype == DType::kF32 ? f32 : f32 + 2 * kernels::EpsOf(dtype) * sums;
}

// Runs a step on the CPU and on all devices: these agree bit by bit, and with it within `tolerance`
// of the largest logit.
void ExpectAlike(const std::vector<Piece>& step, Side& cpu,
                 const std::vector<std::unique_ptr<Side>>& sides, double tolerance) {
  const std::vector<float> expected = cpu.Run(step);
  const std::vector<float> first = sides.front()->Run(step);
  ASSERT_EQ(first.size(), expected.size());
  const double bound = tolerance * LargestMagnitude(expected);
  for (size_t i = 0; i < first.size(); ++i) ASSERT_NEAR(first[i], expected[i], bound);
  for (size_t i = 1; i < sides.size(); ++i) EXPECT_EQ(sides[i]->Run(step), first);
}

class CudaBackendTest : public CudaTest {};

TEST_P(CudaBackendTest, ComputesWhatTheCpuDoes) {
  for (const Golden& golden : Goldens()) {
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
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
      const std::vector<Piece> step = {{0, {{0, 1.0F}}, RandomTokens(golden.spec, rows, random)},
                                       {1, {}, RandomTokens(golden.spec, 1, random)}};
      ASSERT_NO_FATAL_FAILURE(ExpectAlike(step, cpu, sides, Tolerance(golden.spec, dtype)));
    }
    EXPECT_GE(sides.front()->num_replays(), 1);
  }
}

// Alone, in chunks of other sizes: the same bits as in a batch.
TEST_P(CudaBackendTest, NobodyElseInTheBatchChangesABit) {
  for (const Golden& golden : Goldens()) {
    SCOPED_TRACE(testing::Message() << golden.name << ", seed " << kSeed);
    std::mt19937_64 random(kSeed);
    const std::vector<std::vector<Piece>> steps = Steps(golden, random);
    Side together(golden, DType::kBF16, devices().front().get());
    const auto vocab = static_cast<size_t>(golden.spec.vocab_size);
    std::map<int, std::vector<float>> expected;  // by sequence
    for (const std::vector<Piece>& step : steps) {
      const std::vector<float> logits = together.Run(step);
      auto from = logits.begin();
      for (const Piece& piece : step) {
        const auto to = from + static_cast<std::ptrdiff_t>(piece.tokens.size() * vocab);
        auto& all = expected[piece.sequence];
        all.insert(all.end(), from, to);
        from = to;
      }
    }
    Side alone(golden, DType::kBF16, devices().front().get());
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
      step.push_back(
          {first_sequence + i, {{i, 1.0F}}, RandomTokens(golden.spec, num_tokens, random)});
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
// and what it has outside of the layers.
TEST_P(CudaBackendTest, AnAdapterThatComesIsNoNewShape) {
  for (const Golden& golden : Goldens()) {
    SCOPED_TRACE(golden.name);
    std::mt19937_64 random(kSeed);
    Side side(golden, DType::kBF16, devices().front().get());
    int sequence = 0;
    const auto run = [&](int adapter) {
      side.Run({{sequence++, {{adapter, 1.0F}}, RandomTokens(golden.spec, 1, random)}});
    };
    std::vector<int> of_layers;
    for (size_t i = 0; i < golden.adapters.size(); ++i) {
      if (!ChangesOuter(golden.adapters[i])) of_layers.push_back(static_cast<int>(i));
    }
    if (of_layers.empty()) continue;
    for (int i = 0; i < 2; ++i) run(of_layers.front());
    for (const int adapter : of_layers) {
      const int64_t before = side.num_replays();
      run(adapter);
      EXPECT_EQ(side.num_replays(), before + 1) << "adapter " << adapter;
    }
  }
}

// More of them than there are places for.
TEST(CudaAdapters, ForgetsWhatWasNotUsedForTheLongestTime) {
  const std::vector<Golden> goldens = Goldens();
  const Golden& golden = goldens.front();
  const auto device = kernels::MakeEmulatedDevice(kernels::emulator::Order::kForward, 1);
  constexpr size_t kAdapters = 300;
  const auto with_outer = std::ranges::find_if(golden.adapters, ChangesOuter);
  const Adapter& adapter =
      with_outer != golden.adapters.end() ? *with_outer : golden.adapters.front();
  const int64_t page_bytes = Value(ChooseKvLayout(golden.spec, DType::kF32)).page_bytes();
  const auto pages =
      static_cast<int32_t>(kAdapters * PagesForAdapter(adapter, DType::kBF16, page_bytes));
  PagePool pool(pages);
  const auto arena = Value(CudaArena::Create(*device, pages, page_bytes));
  std::vector<ResidentAdapter> adapters;
  for (size_t i = 0; i < kAdapters; ++i) {
    adapters.push_back(Golden::Place(adapter, pool, *arena, DType::kBF16));
  }
  CudaAdapters tables(*device);
  const auto find = [&](std::vector<size_t> indices) {
    std::vector<const ResidentAdapter*> wanted;
    for (const size_t i : indices) wanted.push_back(&adapters[i]);
    std::vector<CudaAdapters::Table> found = Value(tables.Find(wanted));
    Require(device->Synchronize());
    CHECK_EQ(found.size(), wanted.size());
    for (size_t i = 0; i < wanted.size(); ++i) {
      const auto layer = wanted[i]->Layer(0);
      for (size_t p = 0; p < kNumProjections; ++p) {
        // The emulator's memory is the host's.
        const kernels::LoraDeviceWeights& described = found[i].weights[p];
        EXPECT_EQ(described.rank, layer[p].rank);
        if (layer[p].rank == 0) continue;
        EXPECT_EQ(described.a.first_data, layer[p].a.runs[0].data) << "adapter " << indices[i];
      }
      const OuterWeights& outer = wanted[i]->outer();
      EXPECT_EQ(found[i].embedding_rank, outer.embedding_rank);
      if (outer.embedding_rank > 0) {
        EXPECT_EQ(found[i].embedding->a.first_data, outer.embedding_a.runs[0].data);
      }
      EXPECT_EQ(found[i].own_embedding != nullptr, !outer.embedding_table.runs.empty());
      for (size_t block = 0; block < outer.lm_head.size(); ++block) {
        EXPECT_EQ(found[i].lm_head[block].b.first_data, outer.lm_head[block].weights.b.runs[0].data)
            << "adapter " << indices[i] << " block " << block;
      }
    }
    return found;
  };
  const auto* const of_first = find({0})[0].weights;
  for (size_t i = 1; i < kAdapters; ++i) {
    const auto found = find({i, 0});
    EXPECT_EQ(found[1].weights, of_first) << "it moved when " << i << " came";
    EXPECT_NE(found[0].weights, of_first);
  }
  find({1, 0, kAdapters - 1});
}

// As they would if a runner made the wrong arena: a GPU's kernels could not read them, or slowly.
TEST(CudaAdaptersDeathTest, OfTheHostEndTheProgram) {
  const std::vector<Golden> goldens = Goldens();
  const Golden& golden = goldens.front();
  const auto device = kernels::MakeEmulatedDevice(kernels::emulator::Order::kForward, 1);
  const HostArena arena(kNumPages, Value(ChooseKvLayout(golden.spec, DType::kF32)).page_bytes());
  for (const Adapter& adapter : golden.adapters) {
    PagePool pool(kNumPages);
    const ResidentAdapter resident = Golden::Place(adapter, pool, arena, DType::kBF16);
    CudaAdapters tables(*device);
    const ResidentAdapter* const wanted[] = {&resident};
    EXPECT_DEATH((void)tables.Find(wanted), "OwnsAll");
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
