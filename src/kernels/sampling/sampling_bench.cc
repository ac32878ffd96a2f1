// Time to choose one token, over the vocabularies of Llama 2 (32,000) and Qwen 2.5 (151,936).

#include <random>

#include "benchmark/benchmark.h"
#include "kernels/sampling/sampling.h"

namespace aril::kernels {
namespace {

void Run(benchmark::State& state, const wire::SamplingParams& params) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 2.5f);
  std::vector<float> logits(static_cast<size_t>(state.range(0)));
  for (float& logit : logits) logit = normal(random);
  SamplingScratch scratch;
  int64_t position = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(
        Sample({.logits = logits, .params = &params, .position = position++}, scratch));
  }
}

#define SAMPLING_BENCHMARK(name, ...) \
  BENCHMARK_CAPTURE(Run, name, wire::SamplingParams __VA_ARGS__)->Arg(32000)->Arg(151936)

SAMPLING_BENCHMARK(greedy, {.temperature = 0});
SAMPLING_BENCHMARK(temperature, {.temperature = 1});
SAMPLING_BENCHMARK(top_k, {.temperature = 0.8f, .top_k = 50});
SAMPLING_BENCHMARK(top_p, {.temperature = 0.8f, .top_p = 0.95f});
SAMPLING_BENCHMARK(penalties, {.temperature = 0, .repetition_penalty = 1.1f});
SAMPLING_BENCHMARK(logprobs, {.temperature = 0, .num_logprobs = 5});

}  // namespace
}  // namespace aril::kernels
