// The LoRA operator against its two obvious alternatives, in one run: a loop over adapters, each
// with its own matrix products, and gathering every row's adapter into one dense batch first. Rank
// 16, 2048 → 2048, BF16. Counter: bytes of the different adapters in the batch per second.

#include <benchmark/benchmark.h>

#include <cmath>

#include "kernels/bench_support.h"
#include "kernels/gemm/gemm.h"
#include "kernels/lora/lora.h"

namespace aril::kernels {
namespace {

constexpr int32_t kRank = 16;
constexpr int64_t kIn = 2048, kOut = 2048;
constexpr int64_t kAdapterBytes = kRank * (kIn + kOut) * 2;

enum Popularity { kDistinct, kUniform, kSkewed, kIdentical };

// Rows per adapter (Punica, section 7): all different; ⌈√n⌉ adapters alike; each 1.5 times as
// popular as the next; one.
std::vector<int32_t> SegmentLengths(Popularity popularity, int32_t rows) {
  if (popularity == kDistinct) return std::vector<int32_t>(static_cast<size_t>(rows), 1);
  if (popularity == kIdentical) return {rows};
  std::vector<int32_t> lengths;
  const auto adapters = static_cast<int32_t>(std::ceil(std::sqrt(rows)));
  for (int32_t left = rows; left > 0; left -= lengths.back()) {
    const double share = popularity == kUniform ? static_cast<double>(rows) / adapters : left / 3.0;
    lengths.push_back(std::min(left, std::max(1, static_cast<int32_t>(std::ceil(share)))));
  }
  return lengths;
}

// Adapters that rotate through cold memory, and the call of the n-th batch.
class Batches {
 public:
  Batches(Popularity popularity, int32_t rows)
      : lengths_(SegmentLengths(popularity, rows)), pool_(kColdBytes) {
    FillSmall(pool_);
    const int64_t adapters = kColdBytes / kAdapterBytes;
    for (int64_t i = 0; i < adapters; ++i) {
      const std::byte* a = pool_.data() + i * kAdapterBytes;
      runs_.push_back({a, 0, kRank});
      runs_.push_back({a + kRank * kIn * 2, 0, kRank});
    }
    for (size_t i = 0; i < static_cast<size_t>(adapters); ++i) {
      weights_.push_back(
          {kRank, 1.0f, {{&runs_[2 * i], 1}, kIn * 2}, {{&runs_[2 * i + 1], 1}, kOut * 2}});
    }
  }

  const std::vector<LoraSegment>& Next() {
    segments_.clear();
    int32_t row = 0;
    for (const int32_t length : lengths_) {
      segments_.push_back({row, length, {&weights_[next_++ % weights_.size()], 1}});
      row += length;
    }
    return segments_;
  }

  int64_t bytes() const { return static_cast<int64_t>(lengths_.size()) * kAdapterBytes; }

 private:
  std::vector<int32_t> lengths_;
  Buffer pool_;
  std::vector<MatrixRun> runs_;
  std::vector<LoraWeights> weights_;
  std::vector<LoraSegment> segments_;
  size_t next_ = 0;
};

struct Operands {
  explicit Operands(int64_t rows)
      : x_buffer(static_cast<size_t>(rows * kIn * 2)),
        y_buffer(static_cast<size_t>(rows * kOut * 4)),
        x{x_buffer.data(), DType::kBF16, rows, kIn, kIn},
        y{y_buffer.as<float>(), rows, kOut, kOut} {
    FillSmall(x_buffer);
  }
  Buffer x_buffer, y_buffer;
  ConstMatrix x;
  MatrixView<float> y;
};

constexpr LoraTarget kTarget{0, kOut};

void RunSegments(CpuContext& context, const Operands& operands,
                 std::span<const LoraSegment> segments, std::vector<float>& v) {
  const LoraCall call{segments, {&kTarget, 1}, DType::kBF16};
  v.resize(static_cast<size_t>(LoraIntermediateSize(call)));
  LoraShrink(context, operands.x, call, v);
  LoraExpand(context, v, call, operands.y);
}

void Segmented(benchmark::State& state) {
  ThreadPool threads(BenchThreads());
  CpuContext context(threads, AvailableIsas().back());
  Batches batches(static_cast<Popularity>(state.range(0)), static_cast<int32_t>(state.range(1)));
  const Operands operands(state.range(1));
  std::vector<float> v;
  for (auto _ : state) RunSegments(context, operands, batches.Next(), v);
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) * batches.bytes());
}

// One call per adapter, as a server does that batches adapter by adapter.
void LoopOverAdapters(benchmark::State& state) {
  ThreadPool threads(BenchThreads());
  CpuContext context(threads, AvailableIsas().back());
  Batches batches(static_cast<Popularity>(state.range(0)), static_cast<int32_t>(state.range(1)));
  const Operands operands(state.range(1));
  std::vector<float> v;
  for (auto _ : state) {
    for (const LoraSegment& segment : batches.Next())
      RunSegments(context, operands, {&segment, 1}, v);
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) * batches.bytes());
}

// Copies every row's adapter into a dense [rows, …] batch, then one product per row.
void GatherThenBatched(benchmark::State& state) {
  ThreadPool threads(BenchThreads());
  CpuContext context(threads, AvailableIsas().back());
  Batches batches(static_cast<Popularity>(state.range(0)), static_cast<int32_t>(state.range(1)));
  const Operands operands(state.range(1));
  Buffer gathered(static_cast<size_t>(state.range(1) * kAdapterBytes));
  std::vector<MatrixRun> runs(static_cast<size_t>(2 * state.range(1)));
  std::vector<LoraWeights> weights(static_cast<size_t>(state.range(1)));
  std::vector<LoraSegment> rows(static_cast<size_t>(state.range(1)));
  std::vector<float> v;
  for (auto _ : state) {
    for (const LoraSegment& segment : batches.Next()) {
      for (int32_t row = segment.first_row; row < segment.first_row + segment.num_rows; ++row) {
        const auto r = static_cast<size_t>(row);
        std::byte* copy = gathered.data() + row * kAdapterBytes;
        std::memcpy(copy, segment.targets[0].a.runs[0].data, kAdapterBytes);
        runs[2 * r] = {copy, 0, kRank};
        runs[2 * r + 1] = {copy + kRank * kIn * 2, 0, kRank};
        weights[r] = {kRank, 1.0f, {{&runs[2 * r], 1}, kIn * 2}, {{&runs[2 * r + 1], 1}, kOut * 2}};
        rows[r] = {row, 1, {&weights[r], 1}};
      }
    }
    RunSegments(context, operands, rows, v);
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) * batches.bytes());
}

void Cases(benchmark::internal::Benchmark* b) {
  b->ArgNames({"popularity", "rows"})
      ->ArgsProduct({{kDistinct, kUniform, kSkewed, kIdentical}, {1, 4, 16, 64}})
      ->UseRealTime()
      ->Unit(benchmark::kMicrosecond);
}
BENCHMARK(Segmented)->Apply(Cases);
BENCHMARK(LoopOverAdapters)->Apply(Cases);
BENCHMARK(GatherThenBatched)->Apply(Cases);

}  // namespace
}  // namespace aril::kernels
