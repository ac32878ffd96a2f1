// Where adapters' matrices lie, as kernels find it described on a device.

#include "model/cuda_adapters.h"

#include <functional>
#include <set>

#include "gtest/gtest.h"
#include "model/cuda_backend_test_fixture.h"

namespace aril {
namespace {

using kernels::Require;

// The same adapter, many times.
class Copies {
 public:
  Copies(const Golden& golden, const Adapter& adapter, size_t count)
      : spec_(golden.spec), device_(MakeDevice()) {
    const int64_t page_bytes = Value(ChooseKvLayout(spec_, DType::kF32)).page_bytes();
    const auto pages = static_cast<int32_t>(static_cast<int64_t>(count) *
                                            PagesForAdapter(adapter, DType::kBF16, page_bytes));
    pool_ = std::make_unique<PagePool>(pages);
    arena_ = Value(CudaArena::Create(*device_, pages, page_bytes));
    for (size_t i = 0; i < count; ++i) {
      adapters_.push_back(Golden::Place(adapter, *pool_, *arena_, DType::kBF16));
    }
    tables_ = std::make_unique<CudaAdapters>(*device_, spec_, kKeptBytes);
  }

  kernels::CudaDevice& device() { return *device_; }
  const ResidentAdapter& operator[](size_t index) const { return adapters_[index]; }

  // Without waiting for the device.
  StatusOr<std::vector<CudaAdapters::Table>> TryFind(const std::vector<size_t>& indices) {
    std::vector<const ResidentAdapter*> wanted;
    for (const size_t i : indices) wanted.push_back(&adapters_[i]);
    return tables_->Find(wanted);
  }

  // What is described of them is right.
  std::vector<CudaAdapters::Table> Find(const std::vector<size_t>& indices) {
    std::vector<CudaAdapters::Table> found = Value(TryFind(indices));
    Require(device_->Synchronize());
    CHECK_EQ(found.size(), indices.size());
    for (size_t i = 0; i < indices.size(); ++i) {
      SCOPED_TRACE(testing::Message() << "adapter " << indices[i]);
      const ResidentAdapter& adapter = adapters_[indices[i]];
      for (int64_t layer = 0; layer < adapter.num_layers(); ++layer) {
        ExpectDescribed(adapter, found[i], layer);
      }
      ExpectOuterDescribed(adapter.outer(), found[i]);
    }
    return found;
  }

  // So that few copies are more than are kept.
  static constexpr size_t kKeptBytes = size_t{256} << 10;

 private:
  static std::unique_ptr<kernels::CudaDevice> MakeDevice() {
    return kernels::MakeEmulatedDevice(kernels::emulator::Order::kForward, 1);
  }

  // The emulator's memory is the host's.
  static void ExpectDescribed(const kernels::LoraDeviceWeights& described,
                              const kernels::LoraWeights& weights) {
    EXPECT_EQ(described.rank, weights.rank);
    if (weights.rank == 0) return;
    EXPECT_EQ(described.scale, weights.scale);
    EXPECT_EQ(described.a.first_data, weights.a.runs[0].data);
    EXPECT_EQ(described.b.first_data, weights.b.runs[0].data);
  }

  void ExpectDescribed(const ResidentAdapter& adapter, const CudaAdapters::Table& table,
                       int64_t layer) const {
    const size_t sites = CudaAdapters::SitesOf(spec_);
    const kernels::LoraDeviceWeights* const of_layer =
        table.weights + static_cast<size_t>(layer) * sites;
    for (size_t p = 0; p < kNumProjections; ++p) {
      ExpectDescribed(of_layer[p], adapter.Layer(layer)[p]);
      EXPECT_GE(table.ranks[p], of_layer[p].rank);
    }
    EXPECT_EQ(table.experts != nullptr, adapter.changes_experts());
    if (!spec_.experts) return;
    ExpectDescribed(of_layer[kNumProjections], adapter.Sites(layer, Site::Router(), 1)[0]);
    if (table.experts == nullptr) return;
    const kernels::ExpertLoraLayer& experts = table.experts[layer];
    for (int32_t expert = 0; expert < spec_.experts->count; ++expert) {
      const auto weights = adapter.Sites(layer, Site::OfExpert(expert, Projection::kGate), 3);
      for (int32_t site = 0; site < 3; ++site) {
        const kernels::LoraDeviceWeights& described =
            experts.weights[expert * experts.per_expert + site * experts.per_site];
        ExpectDescribed(described, weights[static_cast<size_t>(site)]);
        EXPECT_GE(table.expert_rank, described.rank);
      }
    }
  }

  static void ExpectOuterDescribed(const OuterWeights& outer, const CudaAdapters::Table& table) {
    EXPECT_EQ(table.embedding_rank, outer.embedding_rank);
    if (outer.embedding_rank > 0) {
      EXPECT_EQ(table.embedding->a.first_data, outer.embedding_a.runs[0].data);
    }
    EXPECT_EQ(table.own_embedding != nullptr, !outer.embedding_table.runs.empty());
    for (size_t block = 0; block < outer.lm_head.size(); ++block) {
      EXPECT_EQ(table.lm_head[block].b.first_data, outer.lm_head[block].weights.b.runs[0].data);
    }
  }

  const ModelSpec spec_;
  std::unique_ptr<kernels::CudaDevice> device_;
  std::unique_ptr<PagePool> pool_;
  std::unique_ptr<CudaArena> arena_;
  std::vector<ResidentAdapter> adapters_;
  std::unique_ptr<CudaAdapters> tables_;
};

// Calls `test` with so many copies of an adapter with something outside of the layers, and of one
// of experts.
void ForBothKinds(size_t count, const std::function<void(Copies&)>& test) {
  const std::pair<std::string, bool (*)(const Adapter&)> kinds[] = {
      {"llama-f32-sharded", [](const Adapter& adapter) { return adapter.spec().changes_outer(); }},
      {"qwen3-moe-f32", &ChangesExperts}};
  for (const auto& [name, is_wanted] : kinds) {
    SCOPED_TRACE(name);
    const Golden golden(SourcePath("tests/goldens/" + name));
    const auto adapter = std::ranges::find_if(golden.adapters, is_wanted);
    ASSERT_NE(adapter, golden.adapters.end());
    Copies copies(golden, *adapter, count);
    test(copies);
  }
}

// More of them than there are places for.
TEST(CudaAdapters, ForgetsWhatWasNotUsedForTheLongestTime) {
  constexpr size_t kAdapters = 100;
  ForBothKinds(kAdapters, [&](Copies& copies) {
    const CudaAdapters::Table of_first = copies.Find({0})[0];
    std::set<const void*> places;
    for (size_t i = 1; i < kAdapters; ++i) {
      const auto found = copies.Find({i, 0});
      EXPECT_EQ(found[1].weights, of_first.weights) << "it moved when " << i << " came";
      EXPECT_EQ(found[1].experts, of_first.experts) << "it moved when " << i << " came";
      EXPECT_NE(found[0].weights, of_first.weights);
      places.insert(found[0].weights);
    }
    EXPECT_LT(places.size(), kAdapters - 1) << "none was given on";
    copies.Find({1, 0, kAdapters - 1});
  });
}

TEST(CudaAdapters, AStepMayHaveMoreThanAreKept) {
  constexpr size_t kAdapters = 100;
  ForBothKinds(kAdapters, [&](Copies& copies) {
    std::vector<size_t> all(kAdapters);
    for (size_t i = 0; i < kAdapters; ++i) all[i] = i;
    std::set<const void*> places;
    for (const CudaAdapters::Table& table : copies.Find(all)) places.insert(table.weights);
    EXPECT_EQ(places.size(), kAdapters);
    copies.Find(all);
  });
}

// A place may be given on while the device has still to be given what its last owner's step reads.
TEST(CudaAdapters, ACopyThatIsUnderWayIsNotOverwritten) {
  const Golden golden(SourcePath("tests/goldens/llama-f32-sharded"));
  Copies copies(golden, golden.adapters.front(), 100);
  const void* const first = copies.Find({0})[0].weights;
  size_t last = 1;  // the first that gets the place of another one: of all others there are `last`
  while (copies.Find({last})[0].weights != first) ++last;
  const std::vector<CudaAdapters::Table> of_step = Value(copies.TryFind({0}));
  std::vector<kernels::LoraDeviceWeights> read(kNumProjections);
  Require(
      copies.device().CopyToHost(read.data(), of_step[0].weights, std::span(read).size_bytes()));
  // All others are wanted together with one that takes its place.
  std::vector<size_t> next_step = {1};
  for (size_t i = 2; i <= last; ++i) next_step.push_back(i);
  const std::vector<CudaAdapters::Table> of_next = Value(copies.TryFind(next_step));
  EXPECT_EQ(of_next[0].weights, of_step[0].weights);
  Require(copies.device().Synchronize());
  for (size_t p = 0; p < kNumProjections; ++p) {
    const kernels::LoraWeights& weights = copies[0].Layer(0)[p];
    ASSERT_EQ(read[p].rank, weights.rank);
    if (weights.rank > 0) {
      EXPECT_EQ(read[p].a.first_data, weights.a.runs[0].data);
    }
  }
}

TEST(CudaAdapters, WithoutMemoryForMorePlacesTheyAreGivenOn) {
  const Golden golden(SourcePath("tests/goldens/llama-f32-sharded"));
  Copies copies(golden, golden.adapters.front(), 100);
  copies.Find({0});
  const int64_t free = Value(copies.device().FreeBytes());
  const auto others = kernels::Allocate(copies.device(), static_cast<size_t>(free));
  for (size_t i = 1; i < 100; ++i) copies.Find({i});
  std::vector<size_t> all(100);
  for (size_t i = 0; i < all.size(); ++i) all[i] = i;
  EXPECT_EQ(copies.TryFind(all).status().code(), StatusCode::kResourceExhausted);
}

// What adapters of experts take is for the layers that they change.
TEST(CudaAdapters, LayersWhoseExpertsStayHaveWeightsOfRankZero) {
  const Golden golden(SourcePath("tests/goldens/qwen3-moe-f32"));
  for (const Adapter& adapter : golden.adapters) {
    SCOPED_TRACE(adapter.spec().layers.size());
    Copies copies(golden, adapter, 1);
    const CudaAdapters::Table table = copies.Find({0})[0];
    if (table.experts == nullptr) continue;
    for (int64_t layer = 0; layer < golden.spec.num_layers; ++layer) {
      const bool has_strides = table.experts[layer].per_expert > 0;
      EXPECT_EQ(has_strides, table.experts[layer].per_site > 0);
      EXPECT_EQ(has_strides, adapter.num_sites(layer) > Site::Router().CountUpTo());
    }
  }
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
    CudaAdapters tables(*device, golden.spec);
    const ResidentAdapter* const wanted[] = {&resident};
    EXPECT_DEATH((void)tables.Find(wanted), "OwnsAll");
  }
}

}  // namespace
}  // namespace aril
