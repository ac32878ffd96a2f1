// A plan must cover every element of V and of y exactly once, in the order of the list, within its
// bounds, whatever the segments: shown for random ones.

#include "kernels/lora/lora_plan.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <random>

#include "gtest/gtest.h"

namespace aril::kernels {
namespace {

constexpr uint64_t kSeed = 11;

// Segments that share rows now and then. Their weights' addresses are only told apart.
struct RandomSegments {
  explicit RandomSegments(std::mt19937_64& random, size_t targets, bool overlap) {
    const auto below = [&](uint64_t n) { return static_cast<int32_t>(random() % n); };
    const int32_t count = below(9);
    int32_t row = 0;
    for (int32_t s = 0; s < count; ++s) {
      const int32_t length = below(4) == 0 ? below(400) : below(5);
      row = std::max(0, row + below(3) - (overlap ? below(6) : 0));
      auto& of_segment = ranks.emplace_back(targets);
      for (int32_t& rank : of_segment) rank = below(4) == 0 ? 0 : 1 + below(70);
      segments.push_back({row, length, 0.5f + static_cast<float>(s),
                          &weights[targets * static_cast<size_t>(s)], of_segment});
      row += length;
    }
  }

  int64_t max_rows() const {
    int64_t rows = 0;
    for (const LoraPlanSegment& segment : segments) rows += segment.num_rows;
    return rows;
  }

  LoraDeviceWeights weights[3 * 9];
  std::deque<std::vector<int32_t>> ranks;
  std::vector<LoraPlanSegment> segments;
};

constexpr int64_t kOuts[] = {300, 64, 1000};

LoraPlanShape Shape(int64_t in, size_t targets, int multiprocessors) {
  return {in, std::span(kOuts).first(targets), multiprocessors};
}

// Every element of V is written by one shrink item, from all chunks of its partial.
void ExpectShrinkCovers(const LoraPlan& plan, int64_t in, const std::string& what) {
  std::vector<int> written(static_cast<size_t>(plan.v_floats()));
  for (const LoraShrinkItem& item : plan.shrink_items()) {
    EXPECT_GT(item.num_rows, 0) << what;
    EXPECT_LE(item.num_rows, kLoraShrinkRows) << what;
    const int64_t chunks = (in + kLoraChunk - 1) / kLoraChunk;
    EXPECT_TRUE(item.num_chunks == 1 || (item.first_chunk == 0 && item.num_chunks == chunks));
    const int32_t ranks = std::min(kLoraRankTile, item.v_stride - item.first_rank);
    for (int32_t r = 0; r < item.num_rows; ++r) {
      for (int32_t j = 0; j < ranks; ++j) {
        const int64_t at = item.v_offset + int64_t{r} * item.v_stride + item.first_rank + j;
        ASSERT_GE(at, 0);
        ASSERT_LT(at, plan.v_floats()) << what;
        ++written[static_cast<size_t>(at)];
      }
    }
  }
  EXPECT_TRUE(std::ranges::all_of(written, [](int n) { return n == 1; })) << what;
}

// A block's columns are the item's, and no others.
void ExpectInsideBlock(const LoraExpandItem& item, int64_t block_cols, const std::string& what) {
  const int64_t out = kOuts[item.target];
  const int64_t width = block_cols == 0 ? out : block_cols;
  EXPECT_EQ(item.block_col, item.block * width) << what;
  EXPECT_LE(item.first_col + item.num_cols, std::min(width, out - item.block_col)) << what;
}

// Every (target, row, column) gets the segments that cover it, in their order, from where the
// shrink wrote their V.
void ExpectExpandCovers(const LoraPlan& plan, const RandomSegments& random,
                        const LoraPlanShape& shape, const std::string& what) {
  const int64_t in = shape.in;
  const size_t targets = shape.outs.size();
  std::map<std::pair<const LoraDeviceWeights*, int64_t>, const LoraShrinkItem*> by_v;
  std::map<std::pair<int32_t, int32_t>, int64_t> columns;  // (target, row) → covered
  for (const LoraExpandItem& item : plan.expand_items()) {
    ASSERT_NO_FATAL_FAILURE(ExpectInsideBlock(item, shape.block_cols, what));
    EXPECT_GT(item.num_rows, 0) << what;
    EXPECT_LE(item.num_rows, kLoraExpandRows) << what;
    for (int32_t r = item.first_row; r < item.first_row + item.num_rows; ++r) {
      // Items of a row come in order of their columns.
      int64_t& covered = columns[{item.target, r}];
      EXPECT_EQ(covered, item.block_col + item.first_col) << what;
      covered += item.num_cols;
      std::vector<const LoraPlanSegment*> expected;
      for (const LoraPlanSegment& s : random.segments) {
        if (s.first_row <= r && r < s.first_row + s.num_rows &&
            s.ranks[static_cast<size_t>(item.target)] > 0) {
          expected.push_back(&s);
        }
      }
      ASSERT_EQ(item.num_entries, static_cast<int32_t>(expected.size())) << what << " row " << r;
      for (size_t e = 0; e < expected.size(); ++e) {
        const LoraExpandEntry& entry = plan.entries()[static_cast<size_t>(item.first_entry) + e];
        EXPECT_EQ(entry.weights, expected[e]->weights + item.target) << what;
        EXPECT_EQ(entry.weight, expected[e]->weight);
        EXPECT_EQ(entry.v_stride, expected[e]->ranks[static_cast<size_t>(item.target)]);
        EXPECT_EQ(entry.v_partial_stride, int64_t{expected[e]->num_rows} * entry.v_stride);
        const int64_t last = entry.v_offset + (entry.num_partials - 1) * entry.v_partial_stride +
                             int64_t{item.num_rows} * entry.v_stride;
        EXPECT_LE(last, plan.v_floats());
      }
    }
  }
  for (size_t t = 0; t < targets; ++t) {
    for (const LoraPlanSegment& s : random.segments) {
      for (int32_t r = 0; s.ranks[t] > 0 && r < s.num_rows; ++r) {
        const int64_t covered = columns[{static_cast<int32_t>(t), s.first_row + r}];
        EXPECT_EQ(covered, kOuts[t]) << what << " target " << t << " row " << r;
      }
    }
  }
  // The shrink's V is where the expand looks for it.
  for (const LoraShrinkItem& item : plan.shrink_items())
    by_v[{item.weights, item.v_offset}] = &item;
  for (const LoraExpandItem& item : plan.expand_items()) {
    for (int32_t e = 0; e < item.num_entries; ++e) {
      const LoraExpandEntry& entry =
          plan.entries()[static_cast<size_t>(item.first_entry) + static_cast<size_t>(e)];
      EXPECT_TRUE(entry.num_partials == 1 ||
                  entry.num_partials == (in + kLoraChunk - 1) / kLoraChunk);
      for (int32_t p = 0; p < entry.num_partials; ++p) {
        // The shrink item that wrote this row: the last one at or before it.
        const int64_t at = entry.v_offset + p * entry.v_partial_stride;
        auto after = by_v.upper_bound({entry.weights, at});
        ASSERT_NE(after, by_v.begin());
        const LoraShrinkItem& wrote = *std::prev(after)->second;
        ASSERT_EQ(wrote.weights, entry.weights) << what;
        EXPECT_EQ((at - wrote.v_offset) % wrote.v_stride, 0);
        EXPECT_EQ(wrote.first_row + (at - wrote.v_offset) / wrote.v_stride, item.first_row) << what;
        EXPECT_EQ(wrote.first_chunk, entry.num_partials == 1 ? 0 : p);
      }
    }
  }
}

TEST(LoraPlan, CoversEveryElementOnceInOrderAndKeepsToItsBounds) {
  std::mt19937_64 random(kSeed);
  for (int round = 0; round < 300; ++round) {
    const size_t targets = 1 + random() % 3;
    const int64_t in = 1 + static_cast<int64_t>(random() % 5000);
    const RandomSegments segments(random, targets, round % 2 == 1);
    LoraPlanShape shape = Shape(in, targets, 1 + static_cast<int>(random() % 132));
    if (targets == 1) shape.block_cols = static_cast<int64_t>(random() % 25) * 16;
    const LoraPlan plan(shape, segments.segments);
    const std::string what = "round " + std::to_string(round) + " seed " + std::to_string(kSeed);
    ASSERT_NO_FATAL_FAILURE(ExpectShrinkCovers(plan, in, what));
    ASSERT_NO_FATAL_FAILURE(ExpectExpandCovers(plan, segments, shape, what));
    const LoraPlanBounds bounds = BoundLoraPlan(
        shape, static_cast<int64_t>(segments.segments.size()), segments.max_rows(), 70);
    EXPECT_LE(plan.table_bytes(), bounds.table_bytes) << what;
    EXPECT_LE(plan.v_floats(), bounds.v_floats) << what;
    EXPECT_LE(plan.max_rank(), 70);
    EXPECT_TRUE(plan.CheckWithin(bounds).ok()) << what;
  }
}

TEST(LoraPlan, SaysWhatIsMoreThanLaunchesWereMadeFor) {
  const int64_t outs[] = {64};
  const int32_t rank[] = {8};
  LoraDeviceWeights weights;
  const std::vector<LoraPlanSegment> segments = {{0, 4, 1, &weights, rank}};
  const LoraPlanShape shape{512, outs, 1};
  const LoraPlan plan(shape, segments);
  EXPECT_TRUE(plan.CheckWithin(BoundLoraPlan(shape, 1, 4, 8)).ok());
  const auto why = [&](const LoraPlanBounds& bounds) { return Message(plan.CheckWithin(bounds)); };
  EXPECT_EQ(why(BoundLoraPlan(shape, 1, 4, 7)),
            "a step's LoRA plan has ranks up to 8, and its launches were made for 7");
  EXPECT_EQ(why(BoundLoraPlan(shape, 1, 3, 8)),
            "a step's LoRA plan has floats of V 32, and its launches were made for 24");
  EXPECT_NE(why({.table_bytes = 10, .v_floats = 32, .max_rank = 8}).find("table bytes"),
            std::string::npos);
}

TEST(LoraPlan, WritesWhatTheTablesDescribe) {
  std::mt19937_64 random(kSeed);
  for (int round = 0; round < 20; ++round) {
    const RandomSegments segments(random, 2, true);
    const LoraPlan plan(Shape(2000, 2, 3), segments.segments);
    std::vector<std::byte> bytes(static_cast<size_t>(plan.table_bytes()));
    plan.Write(bytes.data());
    LoraTables tables;
    std::memcpy(&tables, bytes.data(), sizeof(tables));
    ASSERT_EQ(static_cast<size_t>(tables.num_shrink_items), plan.shrink_items().size());
    ASSERT_EQ(static_cast<size_t>(tables.num_expand_items), plan.expand_items().size());
    EXPECT_EQ(tables.max_rank, plan.max_rank());
    EXPECT_EQ(tables.entries_offset % 8, 0);
    const auto same = [&](int64_t offset, const auto& items) {
      return items.empty() || std::memcmp(&bytes[static_cast<size_t>(offset)], items.data(),
                                          items.size() * sizeof(items[0])) == 0;
    };
    EXPECT_TRUE(same(sizeof(LoraTables), plan.shrink_items()));
    EXPECT_TRUE(same(tables.expand_items_offset, plan.expand_items()));
    EXPECT_TRUE(same(tables.entries_offset, plan.entries()));
  }
}

// Requests with an adapter each: most of a large device's places for blocks have an item, and none
// a second one.
TEST(LoraPlan, GivesADecodeAsManyItemsAsADeviceHasPlacesForBlocks) {
  const int64_t outs[] = {11008};
  const int32_t rank[] = {16};
  LoraDeviceWeights weights;
  std::vector<LoraPlanSegment> segments;
  for (int32_t rows = 1; rows <= 64; ++rows) {
    segments.push_back({rows - 1, 1, 1, &weights, rank});
    const LoraPlan plan({4096, outs, 132}, segments);
    EXPECT_EQ(plan.shrink_items().size(), static_cast<size_t>(rows) * 4);
    EXPECT_LE(plan.expand_items().size(), 132u * 4) << rows;
    if (rows < 16) continue;
    EXPECT_GE(plan.expand_items().size(), 132u * 2) << rows;
  }
}

// One adapter's rows, of a decode or of a prefill: as many blocks as there are places, if need be
// by fewer rows for each and by splitting along `in`.
TEST(LoraPlan, SpreadsASegmentOverTheDevice) {
  const int64_t outs[] = {4096, 4096, 4096};
  const int32_t ranks[] = {16, 16, 16};
  LoraDeviceWeights weights[3];
  const auto plan = [&](int32_t rows) {
    const std::vector<LoraPlanSegment> segments = {{0, rows, 1, weights, ranks}};
    return LoraPlan({4096, outs, 132}, segments);
  };
  const auto shrink = [&](int32_t rows) { return plan(rows).shrink_items(); };
  EXPECT_EQ(shrink(32).size(), 3u * 4 * 4);
  EXPECT_EQ(shrink(32)[0].num_rows, 8);
  EXPECT_EQ(shrink(512).size(), 3u * 4 * 32);
  EXPECT_EQ(shrink(512)[0].num_rows, 16);
  EXPECT_EQ(shrink(512)[0].num_chunks, 1);
  EXPECT_EQ(shrink(8192).size(), 3u * 256);
  EXPECT_EQ(shrink(8192)[0].num_rows, 32);
  EXPECT_EQ(shrink(8192)[0].num_chunks, 4);
  EXPECT_EQ(plan(32).expand_items()[0].num_rows, 8);
  EXPECT_EQ(plan(512).expand_items()[0].num_rows, 16);
}

TEST(LoraPlan, DescribesAMatrixAndWhetherItsRowsAreAligned) {
  alignas(16) std::byte page[64];
  std::vector<MatrixRun> runs = {{page, 0, 2}, {page + 32, 2, 1}};
  const LoraDeviceMatrix aligned = DescribeLoraMatrix({runs, 16}, runs.data());
  EXPECT_EQ(aligned.first_data, page);
  EXPECT_EQ(aligned.first_num_rows, 2);
  EXPECT_EQ(aligned.num_runs, 2);
  EXPECT_EQ(aligned.aligned16, 1);
  EXPECT_EQ(DescribeLoraMatrix({runs, 24}, runs.data()).aligned16, 0);
  runs[1].data = page + 40;
  EXPECT_EQ(DescribeLoraMatrix({runs, 16}, runs.data()).aligned16, 0);
  EXPECT_EQ(DescribeLoraMatrix({}, nullptr).num_runs, 0);
}

}  // namespace
}  // namespace aril::kernels
