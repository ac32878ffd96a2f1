// The LoRA operator against its two obvious alternatives, in one run: a loop over adapters, each
// with its own matrix products, and gathering every row's adapter into one dense batch first,
// padded to the largest rank there. 2048 → 2048, BF16; rank 16, or 8, 16, 32 and 64 in turns.
// Counter: bytes of the different adapters in the batch per second.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstring>

#include "kernels/bench_support.h"
#include "kernels/gemm/gemm.h"
#include "kernels/lora/lora.h"

namespace aril::kernels {
namespace {

constexpr int64_t kIn = 2048, kOut = 2048;
constexpr int64_t kRankBytes = (kIn + kOut) * 2;  // of an adapter, for each of its ranks

enum Ranks { kSixteen, kMixed };

std::vector<int32_t> RanksOf(Ranks ranks) {
  return ranks == kSixteen ? std::vector<int32_t>{16} : std::vector<int32_t>{8, 16, 32, 64};
}

// The two matrices of an adapter of that rank, one after the other from `data`.
struct BenchAdapter {
  BenchAdapter(const std::byte* data, int32_t rank)
      : a{data, 0, rank}, b{data + rank * kIn * 2, 0, rank} {}

  LoraWeights weights() const {
    return {b.num_rows, 1.0f, {{&a, 1}, kIn * 2}, {{&b, 1}, kOut * 2}};
  }

  MatrixRun a, b;
};

// Adapters that rotate through cold memory, and the call of the n-th batch.
class Batches {
 public:
  Batches(Popularity popularity, int32_t rows, Ranks ranks)
      : lengths_(SegmentLengths(popularity, rows)), pool_(kColdBytes) {
    FillSmall(pool_);
    const std::vector<int32_t> cycle = RanksOf(ranks);
    const std::byte* data = pool_.data();
    while (true) {
      const int32_t rank = cycle[adapters_.size() % cycle.size()];
      if (data + rank * kRankBytes > pool_.data() + kColdBytes) break;
      adapters_.emplace_back(data, rank);
      data += rank * kRankBytes;
    }
    for (const BenchAdapter& adapter : adapters_) weights_.push_back(adapter.weights());
    bytes_ = static_cast<int64_t>(lengths_.size()) * (data - pool_.data()) /
             static_cast<int64_t>(adapters_.size());
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

  // Of a batch's different adapters, on average.
  int64_t bytes() const { return bytes_; }

 private:
  std::vector<int32_t> lengths_;
  Buffer pool_;
  std::vector<BenchAdapter> adapters_;
  std::vector<LoraWeights> weights_;
  std::vector<LoraSegment> segments_;
  int64_t bytes_ = 0;
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
  Batches batches(static_cast<Popularity>(state.range(0)), static_cast<int32_t>(state.range(1)),
                  static_cast<Ranks>(state.range(2)));
  const Operands operands(state.range(1));
  std::vector<float> v;
  for (auto _ : state) RunSegments(context, operands, batches.Next(), v);
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) * batches.bytes());
}

// One call per adapter, as a server does that batches adapter by adapter.
void LoopOverAdapters(benchmark::State& state) {
  ThreadPool threads(BenchThreads());
  CpuContext context(threads, AvailableIsas().back());
  Batches batches(static_cast<Popularity>(state.range(0)), static_cast<int32_t>(state.range(1)),
                  static_cast<Ranks>(state.range(2)));
  const Operands operands(state.range(1));
  std::vector<float> v;
  for (auto _ : state) {
    for (const LoraSegment& segment : batches.Next())
      RunSegments(context, operands, {&segment, 1}, v);
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) * batches.bytes());
}

// Copies every row's adapter into a dense [rows, …] batch, then one product per row. The padding is
// not copied, but multiplied.
void GatherThenBatched(benchmark::State& state) {
  ThreadPool threads(BenchThreads());
  CpuContext context(threads, AvailableIsas().back());
  Batches batches(static_cast<Popularity>(state.range(0)), static_cast<int32_t>(state.range(1)),
                  static_cast<Ranks>(state.range(2)));
  const Operands operands(state.range(1));
  const std::vector<int32_t> ranks = RanksOf(static_cast<Ranks>(state.range(2)));
  const int32_t padded = *std::max_element(ranks.begin(), ranks.end());
  Buffer gathered(static_cast<size_t>(state.range(1) * padded * kRankBytes));
  FillSmall(gathered);
  std::vector<BenchAdapter> copies;
  for (int64_t row = 0; row < state.range(1); ++row) {
    copies.emplace_back(gathered.data() + row * padded * kRankBytes, padded);
  }
  std::vector<LoraWeights> weights;
  for (const BenchAdapter& copy : copies) weights.push_back(copy.weights());
  std::vector<LoraSegment> rows;
  for (int32_t row = 0; row < state.range(1); ++row) {
    rows.push_back({row, 1, {&weights[static_cast<size_t>(row)], 1}});
  }
  std::vector<float> v;
  for (auto _ : state) {
    for (const LoraSegment& segment : batches.Next()) {
      for (int32_t row = segment.first_row; row < segment.first_row + segment.num_rows; ++row) {
        const LoraWeights& from = segment.targets[0];
        std::byte* const copy = gathered.data() + row * padded * kRankBytes;
        std::memcpy(copy, from.a.runs[0].data, static_cast<size_t>(from.rank * kIn * 2));
        std::memcpy(copy + padded * kIn * 2, from.b.runs[0].data,
                    static_cast<size_t>(from.rank * kOut * 2));
      }
    }
    RunSegments(context, operands, rows, v);
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) * batches.bytes());
}

void Cases(benchmark::internal::Benchmark* b) {
  b->ArgNames({"popularity", "rows", "mixed"})
      ->ArgsProduct(
          {{kDistinct, kUniform, kSkewed, kIdentical}, {1, 4, 16, 64}, {kSixteen, kMixed}})
      ->UseRealTime()
      ->Unit(benchmark::kMicrosecond);
}
BENCHMARK(Segmented)->Apply(Cases);
BENCHMARK(LoopOverAdapters)->Apply(Cases);
BENCHMARK(GatherThenBatched)->Apply(Cases);

}  // namespace
}  // namespace aril::kernels
