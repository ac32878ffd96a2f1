// Attention on CUDA, in the emulator and on a GPU, against the oracle; and that a row's bits do not
// depend on who is beside it in a tile, on who computes its splits, or on what it does not see.

#include "kernels/attention/attention_cuda.h"

#include <algorithm>

#include "gtest/gtest.h"
#include "kernels/attention/attention_plan.h"
#include "kernels/attention/attention_test_support.h"
#include "kernels/cuda/test_support.h"

namespace aril::kernels {
namespace {

constexpr uint64_t kSeed = 19;
constexpr std::byte kUnwritten{0x5A};

// Contexts that end in the first, second and third split, and how many of their last tokens are
// rows.
const std::vector<int64_t> kLengths = {1, 17, 258, 70, 515};
const std::vector<int32_t> kNewRows = {1, 3, 4, 66, 1};

// Which splits have blocks of their own: none, those of decodes, or all.
enum class Schedule { kWhole, kDecodesSplit, kSplit };
constexpr Schedule kSchedules[] = {Schedule::kWhole, Schedule::kDecodesSplit, Schedule::kSplit};

// The cache and queries of some sequences, of which any rows can be asked for.
struct Problem {
  Problem(const AttentionCase& c, TestDType type, const std::vector<int64_t>& lengths,
          int64_t num_rows, std::mt19937_64& random)
      : shape(c),
        dtype(type),
        layout{2, c.kv_heads, c.page_tokens, c.head_dim, type.host},
        cache(layout, lengths, random),
        q(type.host, num_rows + 1, c.heads * c.head_dim, 1.0, random, /*padding=*/2) {
    RoundTo(dtype.device, q);
    if (dtype.host == dtype.device) return;
    const Buffer& pool = cache.pool();
    for (size_t i = 0; i < pool.size_bytes() / sizeof(float); ++i) {
      pool.as<float>()[i] = ToFloat(ToF16(pool.as<float>()[i]));
    }
  }

  size_t row_bytes() const {
    return static_cast<size_t>(shape.heads * shape.head_dim) * SizeOf(dtype.device);
  }

  AttentionCase shape;
  TestDType dtype;
  KvLayout layout;
  TestCache cache;
  TestMatrix q;  // the last row is of no sequence
};

AttentionPlanShape PlanShape(const Problem& problem, Schedule schedule) {
  const AttentionCase& c = problem.shape;
  return {.dtype = problem.dtype.device,
          .num_heads = c.heads,
          .num_kv_heads = c.kv_heads,
          .head_dim = c.head_dim,
          .window = c.window.value_or(INT64_MAX),
          .num_multiprocessors = schedule == Schedule::kSplit ? 1000 : 0,
          .max_partials = schedule == Schedule::kWhole ? 0 : 10'000};
}

// out [q's rows, heads · head_dim] in the device's dtype.
std::vector<std::byte> RunAttention(CudaDevice& device, const Problem& problem,
                                    const std::vector<AttentionSequence>& sequences,
                                    Schedule schedule, int64_t layer) {
  const AttentionCase& c = problem.shape;
  const DType dtype = problem.dtype.device;
  const Buffer& host_pool = problem.cache.pool();
  const DeviceBuffer pool =
      Upload(device, ToDeviceDType(host_pool.data(), host_pool.size_bytes(), problem.dtype));
  // A page's address there: pages shrink with their elements.
  const size_t ratio = SizeOf(problem.dtype.host) / SizeOf(dtype);
  std::vector<DeviceBuffer> page_tables;
  std::vector<std::byte* const*> pages_of;
  for (const AttentionSequence& sequence : sequences) {
    std::vector<std::byte*> pages;
    for (const std::byte* page : sequence.pages) {
      pages.push_back(pool.data() + static_cast<size_t>(page - host_pool.data()) / ratio);
    }
    page_tables.push_back(Upload(device, pages));
    pages_of.push_back(page_tables.back().as<std::byte*>());
  }
  const AttentionPlan plan(PlanShape(problem, schedule), sequences);
  const DeviceBuffer lists = Allocate(device, plan.lists_bytes());
  std::vector<std::byte> host_lists(plan.lists_bytes());
  std::vector<AttentionTables> tables(1);
  plan.Write(tables[0], host_lists.data(), lists.data(), pages_of);
  Require(device.CopyToDevice(lists.data(), host_lists.data(), host_lists.size()));
  const DeviceBuffer device_tables = Upload(device, tables);
  const int64_t rows = problem.q.view().rows;
  const auto q_bytes =
      static_cast<size_t>(rows * problem.q.view().stride) * SizeOf(problem.dtype.host);
  const DeviceBuffer q =
      Upload(device, ToDeviceDType(problem.q.view().data, q_bytes, problem.dtype));
  const DeviceBuffer out = Upload(
      device, std::vector<std::byte>(static_cast<size_t>(rows) * problem.row_bytes(), kUnwritten));
  KvLayout layout = problem.layout;
  layout.dtype = dtype;
  const std::vector<float> sinks = c.Sinks();
  const DeviceBuffer device_sinks = sinks.empty() ? DeviceBuffer() : Upload(device, sinks);
  AttentionArgs args{.tables = device_tables.as<AttentionTables>(),
                     .max_items = static_cast<int32_t>(plan.items().size()) + 1,
                     .max_tiles = plan.is_split() ? static_cast<int32_t>(plan.tiles().size()) : 0,
                     .max_partials = plan.num_partials(),
                     .has_wide_tiles = plan.has_wide_tiles(),
                     .q = q.data(),
                     .q_stride = problem.q.view().stride,
                     .layer = LayerOf(layout, layer),
                     .num_heads = static_cast<int32_t>(c.heads),
                     .scale = c.scale(),
                     .softcap = c.softcap,
                     .sinks = device_sinks.as<float>(),
                     .out = out.data(),
                     .out_stride = c.heads * c.head_dim};
  if (c.window) args.window = *c.window;
  const DeviceBuffer partials =
      Allocate(device, sizeof(float) * static_cast<size_t>(AttentionPartialFloats(
                                           args.layer, std::max(1, plan.num_partials()))));
  args.partials = partials.as<float>();
  Require(device.Check(device.kernels().attention(device.context(), dtype, args), "attention"));
  return Download<std::byte>(device, out);
}

// Rows [first, end) of the only sequence, which are those of the batch, too.
std::vector<AttentionSequence> Chunk(const Problem& problem, int64_t first, int64_t end) {
  return {{static_cast<int32_t>(first), static_cast<int32_t>(end - first), first,
           problem.cache.table(0)}};
}

class CudaAttention : public CudaTest {
 protected:
  void ExpectMatches(const AttentionCase& c, TestDType dtype, std::mt19937_64& random) {
    const int64_t rows = std::accumulate(kNewRows.begin(), kNewRows.end(), int64_t{0});
    const Problem problem(c, dtype, kLengths, rows, random);
    const std::vector<AttentionSequence> sequences =
        MakeSequences(problem.cache, kLengths, kNewRows);
    const int64_t cols = c.heads * c.head_dim;
    std::vector<double> expected(static_cast<size_t>(rows * cols));
    const std::vector<float> sinks = c.Sinks();
    AttentionRef(problem.q.view(), c.Call(sinks, 1), problem.layout, sequences,
                 {expected.data(), rows, cols, cols});
    std::vector<std::byte> first;
    for (const auto& device : devices()) {
      for (const Schedule schedule : kSchedules) {
        const std::vector<std::byte> out = RunAttention(*device, problem, sequences, schedule, 1);
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
    for (size_t i = first.size() - problem.row_bytes(); i < first.size(); ++i) {
      ASSERT_EQ(first[i], kUnwritten) << "a row of no sequence was written";
    }
  }

  // Rows [first, end) of the only sequence, in layer 0.
  std::vector<std::byte> Rows(const Problem& problem, int64_t first, int64_t end,
                              Schedule schedule = Schedule::kWhole) {
    const std::vector<std::byte> out =
        RunAttention(*devices().front(), problem, Chunk(problem, first, end), schedule, 0);
    const size_t row_bytes = problem.row_bytes();
    return {out.begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(first) * row_bytes),
            out.begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(end) * row_bytes)};
  }
};

const AttentionCase kCases[] = {
    {4, 4, 16, 16, {}},  {9, 1, 64, 4, {}},    {14, 2, 64, 16, {}}, {3, 1, 80, 1, {}},
    {8, 1, 128, 8, {}},  {4, 2, 128, 32, 7},   {4, 1, 48, 2, 260},  {2, 2, 256, 16, {}},
    {18, 1, 64, 8, 100}, {4, 1, 200, 16, 260}, {3, 1, 6, 16, {}},   {7, 1, 128, 16, 64},
};

// As in Gemma 2.
const AttentionCase kCappedCases[] = {
    {6, 3, 48, 16, {}, 1}, {4, 2, 256, 16, 20, 2, 144}, {2, 1, 128, 8, {}, 50}};

TEST_P(CudaAttention, MatchesTheReference) {
  std::mt19937_64 random(kSeed);
  for (const AttentionCase& c : kCases) {
    ASSERT_NO_FATAL_FAILURE(ExpectMatches(c, {DType::kBF16, DType::kBF16}, random));
  }
  for (const TestDType dtype : kDTypes) {
    for (const int i : {3, 6, 9}) ASSERT_NO_FATAL_FAILURE(ExpectMatches(kCases[i], dtype, random));
  }
}

TEST_P(CudaAttention, MatchesTheReferenceWhereScoresAreCapped) {
  std::mt19937_64 random(kSeed);
  for (const AttentionCase& c : kCappedCases) {
    ASSERT_NO_FATAL_FAILURE(ExpectMatches(c, {DType::kBF16, DType::kBF16}, random));
  }
  for (const TestDType dtype : kDTypes) {
    ASSERT_NO_FATAL_FAILURE(ExpectMatches(kCappedCases[0], dtype, random));
  }
}

// A tile's slots, units seen in part, decodes and prefills: all the same to a row.
TEST_P(CudaAttention, ChunksDoNotChangeABit) {
  std::mt19937_64 random(kSeed);
  constexpr int64_t kLength = 330;
  for (const AttentionCase& c : {AttentionCase{4, 1, 64, 16, {}}, AttentionCase{7, 1, 80, 8, 70, 2},
                                 AttentionCase{2, 2, 128, 16, 300}}) {
    for (const TestDType dtype : kDTypes) {
      const Problem problem(c, dtype, {kLength}, kLength, random);
      const std::vector<std::byte> whole = Rows(problem, 0, kLength);
      const auto expect_same = [&](int64_t first, int64_t end, Schedule schedule) {
        const std::vector<std::byte> expected(
            whole.begin() + first * static_cast<std::ptrdiff_t>(problem.row_bytes()),
            whole.begin() + end * static_cast<std::ptrdiff_t>(problem.row_bytes()));
        ASSERT_EQ(Rows(problem, first, end, schedule), expected)
            << "rows " << first << " to " << end << " head_dim " << c.head_dim << " in "
            << dtype.device;
      };
      int64_t first = 0;
      for (int64_t size = 1; first < kLength; size = size % 5 == 0 ? 90 - size : size + 1) {
        const int64_t end = std::min(first + size, kLength);
        ASSERT_NO_FATAL_FAILURE(expect_same(first, end, kSchedules[size % 3]));
        first = end;
      }
      for (const int64_t row : {17, 63, 64, 254, 256, 329}) {
        ASSERT_NO_FATAL_FAILURE(expect_same(row, row + 1, kSchedules[row % 2]));
      }
    }
  }
}

// Tokens whose K and V are no numbers, or large ones, harm the rows that see them, and no others in
// their tile.
TEST_P(CudaAttention, WhatARowDoesNotSeeDoesNotChangeABit) {
  std::mt19937_64 random(kSeed);
  constexpr int64_t kLength = 150, kWindow = 20, kBad[] = {30, 100};
  for (const TestDType dtype : kDTypes) {
    for (const float value : {INFINITY, -INFINITY, NAN, 6e4f}) {
      const AttentionCase c{4, 2, 64, 8, kWindow};
      Problem problem(c, dtype, {kLength}, kLength, random);
      const std::vector<std::byte> clean = Rows(problem, 0, kLength);
      for (const int64_t token : kBad) problem.cache.SetToken(0, token, value);
      const std::vector<std::byte> out = Rows(problem, 0, kLength);
      for (int64_t row = 0; row < kLength; ++row) {
        const bool sees = std::ranges::any_of(
            kBad, [row](int64_t token) { return token <= row && row < token + kWindow; });
        const auto at =
            static_cast<std::ptrdiff_t>(row) * static_cast<std::ptrdiff_t>(problem.row_bytes());
        const auto end = at + static_cast<std::ptrdiff_t>(problem.row_bytes());
        const bool is_same = std::equal(out.begin() + at, out.begin() + end, clean.begin() + at);
        ASSERT_EQ(is_same, !sees) << "row " << row << " in " << dtype.device << " with " << value;
        // Those that see them: the same as alone.
        if (sees && row % 7 == 0) {
          ASSERT_EQ(Rows(problem, row, row + 1),
                    std::vector<std::byte>(out.begin() + at, out.begin() + end))
              << "row " << row << " in " << dtype.device << " with " << value;
        }
      }
    }
  }
}

ARIL_INSTANTIATE_CUDA_TEST(CudaAttention);

// A GPU would be of no use to the tests after it.
TEST(CudaAttentionDeathTest, MoreThanTheLaunchWasMadeForTraps) {
  const auto device = MakeEmulatedDevice(emulator::Order::kForward, 1);
  const auto run = [&](DType dtype, const AttentionTables& tables) {
    const DeviceBuffer on_device = Upload(*device, std::vector<AttentionTables>{tables});
    const AttentionArgs args{.tables = on_device.as<AttentionTables>(),
                             .max_items = 2,
                             .max_tiles = 1,
                             .max_partials = 5,
                             .has_wide_tiles = false,
                             .layer = LayerOf({1, 1, 16, 16, dtype}, 0),
                             .num_heads = 1};
    (void)device->kernels().attention(device->context(), dtype, args);
    (void)device->Synchronize();
  };
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    EXPECT_DEATH(run(dtype, {.num_items = 3}), "items of at most the launch's");
    EXPECT_DEATH(run(dtype, {.num_tiles = 2, .num_partials = 1}), "tiles of at most the launch's");
    EXPECT_DEATH(run(dtype, {.num_partials = 6}), "partial results of at most the launch's");
  }
  const DeviceBuffer tiles = Upload(*device, std::vector<AttentionDeviceTile>{{.is_wide = 1}});
  const DeviceBuffer items = Upload(*device, std::vector<AttentionItem>(1));
  EXPECT_DEATH(run(DType::kBF16, {.tiles = tiles.as<AttentionDeviceTile>(),
                                  .items = items.as<AttentionItem>(),
                                  .num_tiles = 1,
                                  .num_items = 1}),
               "wide tiles only if the launch has any");
}

}  // namespace
}  // namespace aril::kernels
