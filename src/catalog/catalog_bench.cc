// What names of adapters cost as they become many: giving, finding and listing them, with and
// without a registry on disk.
//
// The argument is the number of names that there are. Registry files lie in the folder for
// temporary files (TMPDIR), whose disk decides what a durable change costs.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/strings.h"
#include "base/test_dir.h"
#include "benchmark/benchmark.h"
#include "catalog/catalog.h"
#include "catalog/registry.h"

namespace aril {
namespace {

std::string NameOf(int64_t i) { return StrCat("tenant/adapter-", i); }

// 64 digits, as long as a digest.
std::string DigestOf(int64_t i) {
  std::string digits = std::to_string(i);
  return std::string(64 - digits.size(), '0') + digits;
}

CatalogEntry Entry(int64_t i) {
  return {.name = NameOf(i),
          .parent = "base",
          .root = "/adapters/" + NameOf(i),
          .generation = std::make_shared<const Generation>(
              Generation::Description{.adapter = AdapterId(static_cast<int32_t>(i)),
                                      .digest = DigestOf(i),
                                      .rank = 16,
                                      .bytes = 1 << 20})};
}

std::unique_ptr<Registry> OpenRegistry(const TestDir& dir) {
  auto registry = Registry::Open(dir / "registry.sqlite", "base");
  CHECK(registry.ok());
  return *std::move(registry);
}

// The folder of a registry with that many names, filled once: each is a write to disk.
const TestDir& FilledDir(int64_t num_names) {
  static std::map<int64_t, TestDir> dirs;
  const auto [found, is_new] = dirs.try_emplace(num_names);
  if (!is_new) return found->second;
  const auto registry = OpenRegistry(found->second);
  for (int64_t i = 0; i < num_names; ++i) {
    CHECK(registry
              ->Put({.name = NameOf(i),
                     .history = {{.digest = DigestOf(i), .since_unix = 1}},
                     .rank = 16,
                     .bytes = 1 << 20})
              .ok());
  }
  return found->second;
}

// The base model and `num_names` adapters.
std::shared_ptr<Catalog> MakeCatalog(int64_t num_names, Registry* registry) {
  std::vector<CatalogEntry> entries = {
      {.name = "base", .parent = "", .root = "/base", .generation = nullptr}};
  for (int64_t i = 0; i < num_names; ++i) entries.push_back(Entry(i));
  auto catalog = Catalog::Create(std::move(entries), {.registry = registry});
  CHECK(catalog.ok());
  return *std::move(catalog);
}

// One more name than there are, taken away again untimed.
void PutNew(benchmark::State& state, Registry* registry) {
  const auto catalog = MakeCatalog(state.range(0), registry);
  const int64_t next = state.range(0);
  for (auto _ : state) {
    CHECK(catalog->Put(kDefaultTenant, Entry(next), std::nullopt).ok());
    state.PauseTiming();
    CHECK(catalog->Remove(kDefaultTenant, NameOf(next), std::nullopt).ok());
    state.ResumeTiming();
  }
}

void BM_Put(benchmark::State& state) { PutNew(state, nullptr); }

void BM_PutDurable(benchmark::State& state) {
  PutNew(state, OpenRegistry(FilledDir(state.range(0))).get());
}

void BM_Resolve(benchmark::State& state) {
  const auto catalog = MakeCatalog(state.range(0), nullptr);
  std::vector<std::string> names;
  for (int64_t i = 0; i < state.range(0); ++i) names.push_back(NameOf(i));
  constexpr size_t kStride = 7919;  // a prime: all names in turn, no two neighbours
  size_t at = 0;
  for (auto _ : state) {
    at = (at + kStride) % names.size();
    benchmark::DoNotOptimize(catalog->Resolve(kDefaultTenant, names[at]));
  }
}

void BM_List(benchmark::State& state) {
  const auto catalog = MakeCatalog(state.range(0), nullptr);
  for (auto _ : state) benchmark::DoNotOptimize(catalog->List(kDefaultTenant));
}

void BM_OpenAndListRegistry(benchmark::State& state) {
  const TestDir& dir = FilledDir(state.range(0));
  for (auto _ : state) {
    const auto list = OpenRegistry(dir)->List();
    CHECK(list.ok());
    CHECK_EQ(static_cast<int64_t>(list->size()), state.range(0));
  }
}

void Sizes(benchmark::internal::Benchmark* benchmark) {
  for (const int64_t num_names : {100, 1'000, 10'000}) benchmark->Arg(num_names);
  benchmark->ArgName("names")->UseRealTime()->Unit(benchmark::kMicrosecond);
}

BENCHMARK(BM_Put)->Apply(Sizes);
BENCHMARK(BM_PutDurable)->Apply(Sizes);
BENCHMARK(BM_Resolve)->Apply(Sizes);
BENCHMARK(BM_List)->Apply(Sizes);
BENCHMARK(BM_OpenAndListRegistry)->Apply(Sizes);

}  // namespace
}  // namespace aril
