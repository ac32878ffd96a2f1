// Encoding speed. Needs the tokenizers of ../shared/data/tokenizers; without them nothing runs.
//
// The long runs are the texts that make naive merging quadratic; their time per byte must not grow
// from the short to the long form.

#include <string>

#include "base/file.h"
#include "base/test_paths.h"
#include "benchmark/benchmark.h"
#include "tokenizer/tokenizer_folder.h"

namespace aril {
namespace {

std::string Repeat(const std::string& unit, size_t size_bytes) {
  std::string text;
  while (text.size() < size_bytes) text += unit;
  text.resize(size_bytes);
  return text;
}

const std::string& Prose() {
  static const std::string text =
      "The aril is the flesh around each of a pomegranate's many seeds: 1 fruit, many seeds.\n"
      "It doesn't matter, they said; \"every request has one\" (from the first day), in 2024 too.\n"
      "    for (size_t i = 0; i < n; ++i) {\n        total += values[i];\n    }\n\n";
  return text;
}

void BM_Encode(benchmark::State& state, const std::string& name, const std::string& unit) {
  const std::string folder = SharedPath("data/tokenizers/") + name;
  const auto tokenizer = LoadTokenizer(folder);
  if (!tokenizer.ok()) {
    state.SkipWithError("the tokenizer is not present here");
    return;
  }
  const std::string text = Repeat(unit, static_cast<size_t>(state.range(0)));
  for (auto _ : state) benchmark::DoNotOptimize((*tokenizer)->Encode(text, {}));
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

void RegisterAll() {
  for (const char* name : {"llama2-spm", "tinyllama-1.1b-chat", "qwen2.5-instruct", "smollm2"}) {
    const auto add = [name](const char* what, const std::string& unit) {
      const std::string title = std::string(name) + "/" + what;
      benchmark::RegisterBenchmark(
          title.c_str(), [name, unit](benchmark::State& state) { BM_Encode(state, name, unit); })
          ->Arg(10'000)
          ->Arg(100'000)
          ->Arg(1'000'000)
          ->Unit(benchmark::kMillisecond);
    };
    add("prose", Prose());
    add("a", "a");
    add("spaces", " ");
  }
}

[[maybe_unused]] const bool kRegistered = (RegisterAll(), true);

}  // namespace
}  // namespace aril
