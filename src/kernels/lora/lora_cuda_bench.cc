// The LoRA kernels on a GPU: Punica's figures 7 to 9 (section 7.1). One projection, 4096 → 4096 and
// 4096 → 11008, ranks 8 to 64, batches of 1 to 64 rows, four popularities of adapters.
//
// How it is measured: a graph of many shrinks and expands, each over the next adapters of a pool
// far larger than the L2, so that weights come from memory while x, V and y, which in a model the
// previous kernel has just written, do not. Its time by events, divided by their number; the median
// over replays. Beside it, in the same run: the bandwidth of a large copy, and the time of as many
// kernels that do nothing. Before anything is timed, each case's result is compared with the
// definition in double precision, at places drawn at random.
//
// Prints one JSON object. Without a GPU it says so and exits with 2, with 1 at a wrong result or an
// error of the device, with 64 if an argument is not understood.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/empty_cuda.h"
#include "kernels/lora/lora_plan.h"

namespace aril::kernels {
namespace {

constexpr int64_t kIn = 4096;
constexpr int64_t kOuts[] = {4096, 11008};
constexpr int32_t kRanks[] = {8, 16, 32, 64};
constexpr int32_t kBatches[] = {1, 2, 4, 8, 16, 32, 64};
constexpr int64_t kPoolBytes = int64_t{1} << 30;  // twenty times the L2 of an H200
constexpr size_t kElement = 2;                    // BF16
constexpr int kPairs = 16;                        // shrinks and expands of one graph
constexpr int kReplays = 21;
constexpr uint64_t kSeed = 1;
constexpr int kWrongUsage = 64;

void Require(const Status& status) {
  if (!status.ok()) {
    std::fprintf(stderr, "%s\n", Message(status).c_str());
    std::exit(1);
  }
}
template <typename T>
T Require(StatusOr<T> value) {
  Require(value.status());
  return std::move(value).value();
}

// Small finite values of either sign in BF16.
void FillSmall(Buffer& buffer) {
  auto* values = buffer.as<uint16_t>();
  uint32_t state = 1;
  for (size_t i = 0; i < buffer.size_bytes() / 2; ++i) {
    state = state * 1664525 + 1013904223;
    values[i] = static_cast<uint16_t>(0x3C00 | (state >> 16 & 0x80FF));
  }
}

enum Popularity { kDistinct, kUniform, kSkewed, kIdentical };
constexpr const char* kPopularityNames[] = {"distinct", "uniform", "skewed", "identical"};

// Rows per adapter (Punica, section 7), as AdapterShares in apps/bench_popularity.h has them, which
// stands above this folder: all different; ⌈√n⌉ adapters alike; each 1.5 times as popular as the
// next; one.
std::vector<int32_t> SegmentLengths(Popularity popularity, int32_t rows) {
  if (popularity == kDistinct) return std::vector<int32_t>(static_cast<size_t>(rows), 1);
  if (popularity == kIdentical) return {rows};
  const auto adapters = static_cast<int32_t>(std::ceil(std::sqrt(rows)));
  std::vector<int32_t> lengths;
  double skewed = 1;
  for (int32_t left = rows; left > 0; left -= lengths.back(), skewed *= 1.5) {
    const auto others = adapters - static_cast<int32_t>(lengths.size());
    lengths.push_back(popularity == kUniform ? (left + others - 1) / others
                                             : std::min(left, static_cast<int32_t>(skewed)));
  }
  std::ranges::sort(lengths, std::greater<>());
  return lengths;
}

struct Case {
  int64_t out;
  int32_t rank;
  int32_t rows;
  Popularity popularity;
};

constexpr const char* kUsage =
    "usage: bench_cuda [OUT/RANK/BATCH/POPULARITY]\n"
    "  Only these cases, `*` for all of one kind, as in 11008/16/64/distinct or '*/16/64/*':\n"
    "  out 4096 11008, rank 8 16 32 64, batch 1 2 4 8 16 32 64,\n"
    "  popularity distinct uniform skewed identical. Without an argument: all.\n";

// Each part is `*` or what the case has there, written the same.
bool Matches(const Case& c, std::string_view pattern) {
  const std::string parts[] = {std::to_string(c.out), std::to_string(c.rank),
                               std::to_string(c.rows), kPopularityNames[c.popularity]};
  for (size_t i = 0; i < std::size(parts); ++i) {
    const size_t slash = pattern.find('/');
    const bool is_last = i + 1 == std::size(parts);
    if ((slash == std::string_view::npos) != is_last) return false;
    const std::string_view part = pattern.substr(0, slash);
    if (part != "*" && part != parts[i]) return false;
    if (!is_last) pattern.remove_prefix(slash + 1);
  }
  return true;
}

std::vector<Case> AllCases() {
  std::vector<Case> cases;
  for (const int64_t out : kOuts) {
    for (const int32_t rank : kRanks) {
      for (const int32_t rows : kBatches) {
        for (const Popularity popularity : {kDistinct, kUniform, kSkewed, kIdentical}) {
          cases.push_back({out, rank, rows, popularity});
        }
      }
    }
  }
  return cases;
}

double ToDouble(const Buffer& buffer, int64_t index) {
  return static_cast<double>(ToFloat(buffer.as<BF16>()[index]));
}

DeviceBuffer Allocate(CudaDevice& device, size_t bytes) {
  return Require(DeviceBuffer::Allocate(device, bytes));
}

class Bench {
 public:
  explicit Bench(CudaDevice& device)
      : device_(device),
        host_pool_(static_cast<size_t>(kPoolBytes)),
        host_x_(static_cast<size_t>(kBatches[std::size(kBatches) - 1] * kIn) * kElement),
        pool_(Allocate(device, host_pool_.size_bytes())),
        copy_(Allocate(device, host_pool_.size_bytes())),
        x_(Allocate(device, host_x_.size_bytes())) {
    FillSmall(host_pool_);
    FillSmall(host_x_);
    Require(device.CopyToDevice(pool_.data(), host_pool_.data(), host_pool_.size_bytes()));
    Require(device.CopyToDevice(x_.data(), host_x_.data(), host_x_.size_bytes()));
    Require(device.Synchronize());
  }

  // Read plus written bytes per second of a copy of the whole pool.
  double CopyBandwidth() {
    const double us = MedianUs(
        [&] { return device_.CopyWithin(copy_.data(), pool_.data(), host_pool_.size_bytes()); });
    return 2.0 * static_cast<double>(kPoolBytes) / us * 1e6;
  }

  // Of two kernels that do nothing, as a pair of ours is two.
  double EmptyPairUs() {
    const auto graph = Require(device_.Capture([&] {
      for (int i = 0; i < 2 * kPairs; ++i) {
        RETURN_IF_ERROR(device_.Check(cuda::LaunchEmpty(device_.context()), "the empty kernel"));
      }
      return OkStatus();
    }));
    return MedianUs([&] { return graph->Replay(); }) / kPairs;
  }

  void Run(const Case& c, double bandwidth, double empty_us, bool last) {
    const std::vector<int32_t> lengths = SegmentLengths(c.popularity, c.rows);
    const int64_t adapter_bytes = c.rank * (kIn + c.out) * static_cast<int64_t>(kElement);
    MakeAdapters(c, adapter_bytes);
    std::vector<LoraPlan> plans;
    std::vector<DeviceBuffer> tables;
    std::vector<int64_t> first_adapters;
    int64_t next = 0;
    for (int i = 0; i < kPairs; ++i) {
      first_adapters.push_back(next);
      plans.push_back(MakePlan(c, lengths, next));
      std::vector<std::byte> bytes(static_cast<size_t>(plans.back().table_bytes()));
      plans.back().Write(bytes.data());
      tables.push_back(Allocate(device_, bytes.size()));
      Require(device_.CopyToDevice(tables.back().data(), bytes.data(), bytes.size()));
      Require(device_.Synchronize());
    }
    const DeviceBuffer v =
        Allocate(device_, static_cast<size_t>(plans[0].v_floats()) * sizeof(float));
    const DeviceBuffer y = Allocate(device_, static_cast<size_t>(c.rows * c.out) * sizeof(float));
    const auto pair = [&](size_t i) { return Enqueue(c, plans[i], tables[i], v, y); };
    Check(
        c, lengths, first_adapters[kPairs - 1], [&] { return pair(kPairs - 1); }, y);

    const auto graph = Require(device_.Capture([&] {
      for (size_t i = 0; i < kPairs; ++i) RETURN_IF_ERROR(pair(i));
      return OkStatus();
    }));
    const double us = MedianUs([&] { return graph->Replay(); }) / kPairs;
    const auto adapters = static_cast<double>(lengths.size());
    // Each input once, each output once; y is read, too.
    const double bytes = adapters * static_cast<double>(adapter_bytes) +
                         static_cast<double>(c.rows * kIn) * kElement +
                         static_cast<double>(c.rows * c.out) * 2 * sizeof(float);
    const double flop = 2.0 * c.rows * c.rank * static_cast<double>(kIn + c.out);
    std::printf(
        "    {\"in\": %d, \"out\": %d, \"rank\": %d, \"batch\": %d, \"popularity\": \"%s\", "
        "\"adapters\": %zu, \"us\": %.2f, \"bytes\": %.0f, \"flop\": %.0f, "
        "\"of_copy_bandwidth\": %.3f, \"target_us\": %.2f}%s\n",
        static_cast<int>(kIn), static_cast<int>(c.out), c.rank, c.rows,
        kPopularityNames[c.popularity], lengths.size(), us, bytes, flop,
        bytes / us * 1e6 / bandwidth, bytes / (0.6 * bandwidth) * 1e6 + empty_us, last ? "" : ",");
  }

 private:
  double MedianUs(const CudaDevice::Work& work) {
    std::vector<double> times;
    for (int i = 0; i < kReplays + 3; ++i) {
      // What the last replay left in the L2 goes, for bytes that no case reads.
      constexpr size_t kFlushedBytes = size_t{256} << 20;
      Require(device_.CopyWithin(copy_.data(), copy_.data() + copy_.size_bytes() - kFlushedBytes,
                                 kFlushedBytes));
      const double us = Require(device_.TimeUs(work));
      if (i >= 3) times.push_back(us);
    }
    std::ranges::nth_element(times, times.begin() + kReplays / 2);
    return times[kReplays / 2];
  }

  // Cuts the pool into adapters: A [rank, in], then Bᵀ [rank, out].
  void MakeAdapters(const Case& c, int64_t adapter_bytes) {
    num_adapters_ = kPoolBytes / adapter_bytes;
    std::vector<LoraDeviceWeights> weights;
    std::vector<MatrixRun> runs;
    for (int64_t i = 0; i < num_adapters_; ++i) {
      const std::byte* a = pool_.data() + i * adapter_bytes;
      const std::byte* b = a + c.rank * kIn * static_cast<int64_t>(kElement);
      const MatrixRun run_a{a, 0, c.rank}, run_b{b, 0, c.rank};
      weights.push_back(
          {.a = DescribeLoraMatrix({{&run_a, 1}, kIn * static_cast<int64_t>(kElement)}, nullptr),
           .b = DescribeLoraMatrix({{&run_b, 1}, c.out * static_cast<int64_t>(kElement)}, nullptr),
           .gain = {},
           .rank = c.rank,
           .scale = 0.5f});
    }
    weights_ = Allocate(device_, weights.size() * sizeof(weights[0]));
    Require(device_.CopyToDevice(weights_.data(), weights.data(), weights_.size_bytes()));
    Require(device_.Synchronize());
  }

  LoraPlan MakePlan(const Case& c, const std::vector<int32_t>& lengths, int64_t& next) const {
    std::vector<LoraPlanSegment> segments;
    int32_t row = 0;
    for (const int32_t length : lengths) {
      segments.push_back({row, length, 1, weights_.as<LoraDeviceWeights>() + next, {&c.rank, 1}});
      next = (next + 1) % num_adapters_;
      row += length;
    }
    return LoraPlan({kIn, {&c.out, 1}, device_.context().num_multiprocessors}, segments);
  }

  Status Enqueue(const Case& c, const LoraPlan& plan, const DeviceBuffer& tables,
                 const DeviceBuffer& v, const DeviceBuffer& y) {
    const CudaKernels& kernels = device_.kernels();
    RETURN_IF_ERROR(device_.Check(kernels.lora_shrink(device_.context(), DType::kBF16,
                                                      {.tables = tables.as<LoraTables>(),
                                                       .x = x_.data(),
                                                       .x_stride = kIn,
                                                       .in = static_cast<int32_t>(kIn),
                                                       .v = v.as<float>()}),
                                  "shrink"));
    return device_.Check(kernels.lora_expand(device_.context(), DType::kBF16,
                                             {.tables = tables.as<LoraTables>(),
                                              .max_rank = plan.max_rank(),
                                              .v = v.as<float>(),
                                              .y = y.as<float>(),
                                              .y_stride = c.out}),
                         "expand");
  }

  // Compares one pair's result, from y = 0, with the definition.
  void Check(const Case& c, const std::vector<int32_t>& lengths, int64_t first_adapter,
             const CudaDevice::Work& pair, const DeviceBuffer& y) {
    std::vector<float> values(y.size_bytes() / sizeof(float));
    Require(device_.CopyToDevice(y.data(), values.data(), y.size_bytes()));
    Require(pair());
    Require(device_.CopyToHost(values.data(), y.data(), y.size_bytes()));
    Require(device_.Synchronize());
    std::mt19937_64 random(kSeed);
    double error = 0, norm = 0;
    int32_t row = 0;
    for (size_t s = 0; s < lengths.size(); row += lengths[s++]) {
      const int64_t adapter = (first_adapter + static_cast<int64_t>(s)) % num_adapters_;
      const auto r = row + static_cast<int32_t>(random() % static_cast<uint64_t>(lengths[s]));
      for (int i = 0; i < 4; ++i) {
        const auto col = static_cast<int64_t>(random() % static_cast<uint64_t>(c.out));
        const double expected = Expected(c, adapter, r, col);
        const double got = values[static_cast<size_t>(r * c.out + col)];
        error += (got - expected) * (got - expected);
        norm += expected * expected;
      }
    }
    // fp32 sums of 4096 products of one size: far below this, and a wrong adapter far above.
    if (!(std::sqrt(error) <= 1e-4 * std::sqrt(norm))) {
      std::fprintf(stderr, "wrong result: out %d rank %d batch %d %s: relative error %g\n",
                   static_cast<int>(c.out), c.rank, c.rows, kPopularityNames[c.popularity],
                   std::sqrt(error / norm));
      std::exit(1);
    }
  }

  double Expected(const Case& c, int64_t adapter, int32_t row, int64_t col) const {
    const int64_t base = adapter * c.rank * (kIn + c.out);
    double sum = 0;
    for (int32_t j = 0; j < c.rank; ++j) {
      double v = 0;
      for (int64_t k = 0; k < kIn; ++k) {
        v += ToDouble(host_x_, row * kIn + k) * ToDouble(host_pool_, base + j * kIn + k);
      }
      sum += v * ToDouble(host_pool_, base + c.rank * kIn + j * c.out + col);
    }
    return 0.5 * sum;
  }

  CudaDevice& device_;
  Buffer host_pool_, host_x_;
  DeviceBuffer pool_, copy_, x_, weights_;
  int64_t num_adapters_ = 0;
};

int Main(int argc, char** argv) {
  std::vector<Case> cases = AllCases();
  if (argc == 2) std::erase_if(cases, [&](const Case& c) { return !Matches(c, argv[1]); });
  if (argc > 2 || cases.empty()) {
    std::fputs(kUsage, stderr);
    return kWrongUsage;
  }
  const auto device = OpenCudaDevice();
  if (!device.ok()) {
    std::fprintf(stderr, "%s\n", Message(device.status()).c_str());
    return 2;
  }
  Bench bench(**device);
  const double bandwidth = bench.CopyBandwidth();
  const double empty_us = bench.EmptyPairUs();
  std::printf(
      "{\n  \"device\": \"%s\",\n  \"copy_bytes_per_second\": %.4g,\n"
      "  \"empty_pair_us\": %.2f,\n  \"cases\": [\n",
      (*device)->name().c_str(), bandwidth, empty_us);
  for (const Case& c : cases) bench.Run(c, bandwidth, empty_us, &c == &cases.back());
  std::printf("  ]\n}\n");
  return 0;
}

}  // namespace
}  // namespace aril::kernels

int main(int argc, char** argv) { return aril::kernels::Main(argc, argv); }
