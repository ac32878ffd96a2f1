// GEMM at the shapes of TinyLlama-1.1B, beside the machine's read bandwidth in the same run.
// Counters: bytes of W per second and operations per second.

#include <benchmark/benchmark.h>

#include "kernels/bench_support.h"
#include "kernels/gemm/gemm.h"

namespace aril::kernels {
namespace {

// Sums a buffer with all threads: what the memory gives.
void ReadBandwidth(benchmark::State& state) {
  ThreadPool threads(BenchThreads());
  Buffer buffer(static_cast<size_t>(kColdBytes));
  FillSmall(buffer);
  constexpr int64_t kChunk = 1 << 20;
  for (auto _ : state) {
    threads.ParallelFor(kColdBytes / kChunk, [&](int64_t chunk) {
      const auto* words = buffer.as<uint64_t>() + chunk * kChunk / 8;
      uint64_t sum[8] = {};
      for (int64_t i = 0; i < kChunk / 8; i += 8) {
        for (int lane = 0; lane < 8; ++lane) sum[lane] += words[i + lane];
      }
      for (const uint64_t s : sum) benchmark::DoNotOptimize(s);
    });
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) * kColdBytes);
}
BENCHMARK(ReadBandwidth)->UseRealTime()->Unit(benchmark::kMillisecond);

void GemmBf16(benchmark::State& state) {
  const int64_t k = state.range(0), n = state.range(1), rows = state.range(2);
  ThreadPool threads(BenchThreads());
  CpuContext context(threads, AvailableIsas().back());
  Buffer weights(static_cast<size_t>(n * k * 2));
  FillSmall(weights);
  const TensorView view{weights.data(), DType::kBF16, {n, k}};
  std::vector<PackedMatrix> copies;
  for (int64_t bytes = 0; bytes < kColdBytes; bytes += n * k * 2)
    copies.push_back(Pack(context, {view}, DType::kBF16));
  Buffer x(static_cast<size_t>(rows * k * 2)), y(static_cast<size_t>(rows * n * 4));
  FillSmall(x);
  size_t next = 0;
  for (auto _ : state) {
    Gemm(context, {x.data(), DType::kBF16, rows, k, k}, copies[next++ % copies.size()], nullptr,
         {y.as<float>(), rows, n, n});
  }
  const double calls = static_cast<double>(state.iterations());
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) * n * k * 2);
  state.counters["FLOP/s"] = benchmark::Counter(calls * 2 * static_cast<double>(rows * n * k),
                                                benchmark::Counter::kIsRate);
}
BENCHMARK(GemmBf16)
    ->ArgNames({"k", "n", "rows"})
    ->ArgsProduct({{2048}, {5632}, {1, 2, 4, 8, 16, 32, 64, 128, 512}})
    ->ArgsProduct({{5632}, {2048}, {1, 16, 128}})
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace aril::kernels
