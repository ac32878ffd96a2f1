// What it costs to know which tokens may follow. Needs ../shared/data/tokenizers; without it
// nothing runs.
//
// The texts are the entries of the vocabulary as vocab.json writes them, where a byte above
// 0x7F, or a blank, is a character of two bytes: as many tokens as there are, and about as long.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/json.h"
#include "base/test_paths.h"
#include "benchmark/benchmark.h"
#include "grammar/compile.h"
#include "grammar/test_support.h"
#include "grammar/token_automaton.h"

namespace aril::grammar {
namespace {

std::shared_ptr<const TokenTable> LoadTable(const std::string& name) {
  const std::string path = SharedPath("data/tokenizers/") + name + "/vocab.json";
  const auto text = ReadFile(path, size_t{64} << 20);
  if (!text.ok()) return nullptr;
  const auto json = Json::Parse(*text, {.max_bytes = size_t{64} << 20, .max_values = 10'000'000});
  if (!json.ok()) return nullptr;
  std::vector<std::string> texts;
  for (const auto& [token, id] : *json->AsObject()) {
    texts.push_back(token);
  }
  return std::make_shared<const TokenTable>(texts);
}

const std::shared_ptr<const TokenTable>& Qwen() {
  static const std::shared_ptr<const TokenTable> table = LoadTable("qwen2.5-instruct");
  return table;
}

Grammar GrammarOf(std::string_view schema) {
  return *Compile({.kind = wire::OutputFormat::Kind::kJsonSchema, .source = std::string(schema)});
}

constexpr std::string_view kSchema =
    R"({"type":"object","properties":{"name":{"type":"string"},"code":{"type":"string","maxLength":100},)"
    R"("age":{"type":"integer"}},"required":["name","code","age"],"additionalProperties":false})";

// A unit of work is to take about 10 ns.
void CountWork(benchmark::State& state, int64_t work) {
  const auto num_units = static_cast<double>(work);
  state.counters["work"] = benchmark::Counter(num_units, benchmark::Counter::kAvgIterations);
  state.counters["per_unit"] =
      benchmark::Counter(num_units, benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

// The first sequence that comes to a state: nothing is known of it, nor of those behind it.
void BM_FirstTime(benchmark::State& state, std::string_view text) {
  if (Qwen() == nullptr) return state.SkipWithError("the tokenizer is not present here");
  const Grammar grammar = GrammarOf(kSchema);
  int64_t work = 0;
  for (auto _ : state) {
    Automaton automaton(grammar);
    benchmark::DoNotOptimize(Qwen()->TokensAt(automaton, Read(automaton, text), &work));
  }
  CountWork(state, work);
}
BENCHMARK_CAPTURE(BM_FirstTime, key, "{\"na")->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(BM_FirstTime, string, "{\"name\": \"An")->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(BM_FirstTime, string_with_max_length, "{\"name\": \"\", \"code\": \"An")
    ->Unit(benchmark::kMicrosecond);

// The same state once its automaton is known, but not its tokens: what every character of a text
// with a maxLength costs.
void BM_KnownAutomaton(benchmark::State& state, std::string_view text) {
  if (Qwen() == nullptr) return state.SkipWithError("the tokenizer is not present here");
  Automaton automaton(GrammarOf(kSchema));
  const Automaton::State at = Read(automaton, text);
  int64_t work = 0;
  for (auto _ : state) benchmark::DoNotOptimize(Qwen()->TokensAt(automaton, at, &work));
  CountWork(state, work);
}
BENCHMARK_CAPTURE(BM_KnownAutomaton, string_with_max_length, "{\"name\": \"\", \"code\": \"An")
    ->Unit(benchmark::kMicrosecond);

// A sequence in a state that has been met before: one token, and what may follow it.
void BM_NextToken(benchmark::State& state) {
  if (Qwen() == nullptr) return state.SkipWithError("the tokenizer is not present here");
  const auto automaton = std::make_shared<TokenAutomaton>(GrammarOf(kSchema), *Qwen());
  int32_t letter = 0;
  while (Qwen()->Text(letter) != "a") ++letter;
  TokenMatcher matcher(automaton);
  for (const char byte : std::string_view("{\"name\": \"")) {
    int32_t token = 0;
    while (Qwen()->Text(token) != std::string_view(&byte, 1)) {
      if (++token == Qwen()->size()) break;
    }
    if (token < Qwen()->size()) (void)matcher.Accept(token);
  }
  for (auto _ : state) {
    (void)matcher.Accept(letter);
    benchmark::DoNotOptimize(FindAllowed(matcher, -1));
  }
}
BENCHMARK(BM_NextToken)->Unit(benchmark::kMicrosecond)->Iterations(20000);

void BM_Compile(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(GrammarOf(kSchema));
}
BENCHMARK(BM_Compile)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace aril::grammar
