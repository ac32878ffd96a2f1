// Attention on CUDA, in the emulator and on a GPU, against the oracle, in both of its schedules.

#include "kernels/attention/attention_cuda.h"

#include <algorithm>

#include "gtest/gtest.h"
#include "kernels/attention/attention_test_support.h"
#include "kernels/cuda/test_support.h"

namespace aril::kernels {
namespace {

constexpr uint64_t kSeed = 19;

// Contexts that end in the first, second and third split, and how many of their last tokens are
// rows.
const std::vector<int64_t> kLengths = {1, 17, 258, 515};
const std::vector<int32_t> kNewRows = {1, 3, 4, 1};

enum class Schedule { kWholeRows, kSplits };

struct Problem {
  AttentionCase shape;
  TestDType dtype;
  const TestCache& cache;
  const TestMatrix& q;
  std::vector<AttentionSequence> sequences;
};

int32_t NumRows(const Problem& problem) {
  return problem.sequences.back().first_row + problem.sequences.back().num_rows;
}

KvLayout LayoutOf(const AttentionCase& c, DType dtype) {
  return {2, c.kv_heads, c.page_tokens, c.head_dim, dtype};
}

// out [rows + 1, heads · head_dim] in the device's dtype: the last row is of no sequence.
std::vector<std::byte> RunAttention(CudaDevice& device, const Problem& problem, Schedule schedule) {
  const AttentionCase& c = problem.shape;
  const int32_t rows = NumRows(problem) + 1;
  const int64_t cols = c.heads * c.head_dim;
  const Buffer& host_pool = problem.cache.pool();
  const DeviceBuffer pool =
      Upload(device, ToDeviceDType(host_pool.data(), host_pool.size_bytes(), problem.dtype));
  // A page's address there: pages shrink with their elements.
  const size_t ratio = SizeOf(problem.dtype.host) / SizeOf(problem.dtype.device);
  std::vector<DeviceBuffer> tables;
  std::vector<KvRow> sequence_rows(static_cast<size_t>(rows));
  for (const AttentionSequence& sequence : problem.sequences) {
    std::vector<std::byte*> pages;
    for (const std::byte* page : sequence.pages) {
      pages.push_back(pool.data() + static_cast<size_t>(page - host_pool.data()) / ratio);
    }
    tables.push_back(Upload(device, pages));
    for (int32_t r = 0; r < sequence.num_rows; ++r) {
      sequence_rows[static_cast<size_t>(sequence.first_row) + static_cast<size_t>(r)] = {
          tables.back().as<std::byte*>(), sequence.first_position + r};
    }
  }
  const DeviceBuffer device_rows = Upload(device, sequence_rows);
  const auto q_bytes =
      static_cast<size_t>(rows * problem.q.view().stride) * SizeOf(problem.dtype.host);
  const DeviceBuffer q =
      Upload(device, ToDeviceDType(problem.q.view().data, q_bytes, problem.dtype));
  const size_t out_bytes = static_cast<size_t>(rows * cols) * SizeOf(problem.dtype.device);
  const DeviceBuffer out = Upload(device, std::vector<std::byte>(out_bytes, std::byte{0x5A}));
  AttentionArgs args{.q = q.data(),
                     .q_stride = problem.q.view().stride,
                     .sequence_rows = device_rows.as<KvRow>(),
                     .layer = LayerOf(LayoutOf(c, problem.dtype.device), 1),
                     .rows = rows,
                     .num_heads = static_cast<int32_t>(c.heads),
                     .scale = 1.0f / std::sqrt(static_cast<float>(c.head_dim)),
                     .out = out.data(),
                     .out_stride = cols};
  if (c.window) args.window = *c.window;
  DeviceBuffer partials;
  if (schedule == Schedule::kSplits) {
    args.max_splits = AttentionSplits(*std::ranges::max_element(kLengths));
    partials = Allocate(device, static_cast<size_t>(AttentionPartialFloats(args)) * sizeof(float));
    args.partials = partials.as<float>();
  }
  Require(device.Check(device.kernels().attention(device.context(), problem.dtype.device, args),
                       "attention"));
  return Download<std::byte>(device, out);
}

class CudaAttention : public CudaTest {
 protected:
  void ExpectMatches(const AttentionCase& c, TestDType dtype, std::mt19937_64& random) {
    const KvLayout layout = LayoutOf(c, dtype.host);
    const TestCache cache(layout, kLengths, random);
    const std::vector<AttentionSequence> sequences = MakeSequences(cache, kLengths, kNewRows);
    const int64_t rows = std::accumulate(kNewRows.begin(), kNewRows.end(), int64_t{0});
    const int64_t cols = c.heads * c.head_dim;
    const TestMatrix q(dtype.host, rows + 1, cols, 1.0, random);
    RoundTo(dtype.device, q);
    if (dtype.host != dtype.device) {
      const Buffer& pool = cache.pool();
      for (size_t i = 0; i < pool.size_bytes() / sizeof(float); ++i) {
        pool.as<float>()[i] = ToFloat(ToF16(pool.as<float>()[i]));
      }
    }
    std::vector<double> expected(static_cast<size_t>(rows * cols));
    AttentionRef(q.view(), {.num_heads = c.heads, .layer = 1, .sliding_window = c.window}, layout,
                 sequences, {expected.data(), rows, cols, cols});
    const Problem problem{c, dtype, cache, q, sequences};
    std::vector<std::byte> first;
    for (const auto& device : devices()) {
      for (const Schedule schedule : {Schedule::kWholeRows, Schedule::kSplits}) {
        const std::vector<std::byte> out = RunAttention(*device, problem, schedule);
        if (first.empty()) first = out;
        ASSERT_EQ(out, first) << "schedules or runs differ, head_dim " << c.head_dim;
      }
    }
    const double bound = AttentionErrorBound(c, 2 * EpsOf(dtype.device));
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_NEAR(ElementOf(first, i, dtype.device), expected[i], bound)
          << dtype.device << " heads " << c.heads << "/" << c.kv_heads << " head_dim " << c.head_dim
          << " row " << i / static_cast<size_t>(cols) << " seed " << kSeed;
    }
    const size_t row_bytes = static_cast<size_t>(cols) * SizeOf(dtype.device);
    for (size_t i = first.size() - row_bytes; i < first.size(); ++i) {
      ASSERT_EQ(first[i], std::byte{0x5A}) << "a row of no sequence was written";
    }
  }
};

const AttentionCase kCases[] = {
    {4, 4, 16, 16, {}}, {9, 1, 64, 4, {}},  {14, 2, 64, 16, {}}, {3, 1, 80, 1, {}},
    {4, 2, 128, 32, 7}, {2, 1, 48, 2, 260}, {2, 2, 256, 16, {}},
};

TEST_P(CudaAttention, MatchesTheReference) {
  std::mt19937_64 random(kSeed);
  for (const AttentionCase& c : kCases) {
    ASSERT_NO_FATAL_FAILURE(ExpectMatches(c, {DType::kBF16, DType::kBF16}, random));
  }
  for (const TestDType dtype : kDTypes) {
    ASSERT_NO_FATAL_FAILURE(ExpectMatches(kCases[5], dtype, random));
  }
}

ARIL_INSTANTIATE_CUDA_TEST(CudaAttention);

// A GPU would be of no use to the tests after it.
TEST(CudaAttentionDeathTest, ALongerContextThanTheLaunchWasMadeForTraps) {
  const auto device = MakeEmulatedDevice(emulator::Order::kForward, 1);
  const DeviceBuffer pages = Upload(*device, std::vector<std::byte*>{nullptr});
  const DeviceBuffer rows =
      Upload(*device, std::vector<KvRow>{{pages.as<std::byte*>(), 2 * kAttentionSplit}});
  AttentionArgs args{.sequence_rows = rows.as<KvRow>(),
                     .layer = LayerOf({1, 1, 16, 16, DType::kF32}, 0),
                     .rows = 1,
                     .num_heads = 1,
                     .max_splits = 2};
  const DeviceBuffer partials =
      Allocate(*device, static_cast<size_t>(AttentionPartialFloats(args)) * sizeof(float));
  args.partials = partials.as<float>();
  EXPECT_DEATH((void)device->kernels().attention(device->context(), DType::kF32, args),
               "contexts of at most the launch's max_splits");
}

}  // namespace
}  // namespace aril::kernels
