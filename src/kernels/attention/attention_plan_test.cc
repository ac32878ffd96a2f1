// A plan must have every query once, and every split that it sees in one item, within its bounds,
// whatever the sequences: shown for random ones.

#include "kernels/attention/attention_plan.h"

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <utility>

#include "gtest/gtest.h"

namespace aril::kernels {
namespace {

constexpr uint64_t kSeed = 23;

std::vector<AttentionSequence> RandomSequences(std::mt19937_64& random) {
  std::vector<AttentionSequence> sequences(1 + random() % 9);
  int32_t row = 0;
  for (AttentionSequence& sequence : sequences) {
    sequence.first_row = row;
    sequence.num_rows = random() % 2 == 0 ? 1 : static_cast<int32_t>(1 + random() % 300);
    sequence.first_position = static_cast<int64_t>(random() % 3000);
    row += sequence.num_rows;
  }
  return sequences;
}

AttentionPlanShape RandomShape(std::mt19937_64& random) {
  const int64_t kv_heads = 1 + static_cast<int64_t>(random() % 4);
  constexpr DType kTypes[] = {DType::kF32, DType::kBF16, DType::kF16};
  return {.dtype = kTypes[random() % 3],
          .num_heads = kv_heads * (1 + static_cast<int64_t>(random() % 20)),
          .num_kv_heads = kv_heads,
          .head_dim = random() % 4 == 0 ? 256 : 128,
          .window = random() % 2 == 0 ? INT64_MAX : 1 + static_cast<int64_t>(random() % 2000),
          .num_multiprocessors = static_cast<int>(random() % 200),
          .max_partials = static_cast<int64_t>(random() % 3 * 3000)};
}

// The queries of each tile are its own, and no more than the kernels' tiles hold.
void ExpectTilesCover(const AttentionPlan& plan, const AttentionPlanShape& shape,
                      const std::vector<AttentionSequence>& sequences, const std::string& what) {
  const auto group = static_cast<int32_t>(shape.num_heads / shape.num_kv_heads);
  std::set<std::pair<int32_t, int32_t>> seen;  // rows in the batch, heads
  bool any_wide = false;
  for (const AttentionDeviceTile& tile : plan.tiles()) {
    ASSERT_GT(tile.num_queries, 0) << what;
    const int32_t last_query = tile.first_query + tile.num_queries - 1;
    if (tile.is_wide != 0) {
      any_wide = true;
      EXPECT_LE(tile.num_queries, kAttentionWideQueries) << what;
      EXPECT_TRUE(shape.dtype != DType::kF32 && shape.head_dim <= kAttentionMaxWideHeadDim) << what;
    } else {
      EXPECT_LE(tile.num_queries,
                shape.dtype == DType::kF32 ? kAttentionF32Queries : kAttentionNarrowQueries)
          << what;
      EXPECT_EQ(tile.first_query / group, last_query / group) << what;
    }
    for (int32_t q = tile.first_query; q <= last_query; ++q) {
      EXPECT_TRUE(seen.emplace(tile.first_row + q / group, q % group).second) << what;
    }
  }
  size_t queries = 0;
  for (const AttentionSequence& sequence : sequences) {
    queries += static_cast<size_t>(sequence.num_rows * group);
  }
  EXPECT_EQ(seen.size(), queries) << what;
  EXPECT_EQ(plan.has_wide_tiles(), any_wide) << what;
}

// Items have the splits of their tiles once, partial results places of their own.
void ExpectItemsCover(const AttentionPlan& plan, const AttentionPlanShape& shape,
                      const std::string& what) {
  const int64_t group = shape.num_heads / shape.num_kv_heads;
  std::map<int32_t, std::set<int32_t>> splits;  // by tile
  for (const AttentionItem& item : plan.items()) {
    const AttentionDeviceTile& tile = plan.tiles()[static_cast<size_t>(item.tile)];
    EXPECT_LT(item.first_split, item.end_split) << what;
    for (int32_t split = item.first_split; split < item.end_split; ++split) {
      EXPECT_TRUE(splits[item.tile].insert(split).second) << what;
    }
    if (tile.first_partial >= 0) continue;
    EXPECT_EQ(item.first_split, tile.first_split) << what;
  }
  std::set<int32_t> partials;
  for (size_t i = 0; i < plan.tiles().size(); ++i) {
    const AttentionDeviceTile& tile = plan.tiles()[i];
    const std::set<int32_t>& of_tile = splits[static_cast<int32_t>(i)];
    const int64_t first = tile.first_position + tile.first_query / group;
    const int64_t last = tile.first_position + (tile.first_query + tile.num_queries - 1) / group;
    ASSERT_FALSE(of_tile.empty()) << what;
    EXPECT_EQ(*of_tile.begin(), tile.first_split) << what;
    EXPECT_EQ(tile.first_split, std::max<int64_t>(0, first + 1 - shape.window) / kAttentionSplit)
        << what;
    EXPECT_EQ(*of_tile.rbegin(), last / kAttentionSplit) << what;
    EXPECT_EQ(of_tile.size(), static_cast<size_t>(*of_tile.rbegin() - tile.first_split + 1));
    if (tile.first_partial < 0) continue;
    const int32_t count = static_cast<int32_t>(of_tile.size()) * tile.num_queries;
    for (int32_t p = 0; p < count; ++p) {
      EXPECT_TRUE(partials.insert(tile.first_partial + p).second) << what;
    }
  }
  EXPECT_EQ(partials.size(), static_cast<size_t>(plan.num_partials())) << what;
  EXPECT_LE(plan.num_partials(), shape.max_partials) << what;
}

TEST(AttentionPlan, CoversEveryQueryAndSplitOnce) {
  std::mt19937_64 random(kSeed);
  for (int i = 0; i < 300; ++i) {
    const std::string what = "case " + std::to_string(i) + ", seed " + std::to_string(kSeed);
    const AttentionPlanShape shape = RandomShape(random);
    const std::vector<AttentionSequence> sequences = RandomSequences(random);
    const AttentionPlan plan(shape, sequences);
    ASSERT_NO_FATAL_FAILURE(ExpectTilesCover(plan, shape, sequences, what));
    ASSERT_NO_FATAL_FAILURE(ExpectItemsCover(plan, shape, what));
    int64_t rows = 0, positions = 0;
    for (const AttentionSequence& sequence : sequences) {
      rows += sequence.num_rows;
      positions = std::max(positions, sequence.first_position + sequence.num_rows);
    }
    EXPECT_LE(plan.lists_bytes(),
              MaxAttentionListsBytes(shape.num_heads / shape.num_kv_heads, rows, positions))
        << what;
  }
}

// A decode of 1,000 tokens beside a prompt of 64 rows, which has one tile and sees one split.
TEST(AttentionPlan, PutsPrefillsFirstAndSplitsDecodes) {
  const std::vector<AttentionSequence> sequences = {
      {.first_row = 0, .num_rows = 1, .first_position = 999, .pages = {}},
      {.first_row = 1, .num_rows = 64, .first_position = 0, .pages = {}}};
  const AttentionPlan plan({.dtype = DType::kBF16,
                            .num_heads = 1,
                            .num_kv_heads = 1,
                            .head_dim = 128,
                            .num_multiprocessors = 100,
                            .max_partials = 100},
                           sequences);
  ASSERT_EQ(plan.tiles().size(), 2u);
  ASSERT_EQ(plan.items().size(), 5u);
  EXPECT_EQ(plan.items().front().tile, 1);
  EXPECT_EQ(plan.num_partials(), 4);
}

// Memory for the results of one of the two.
TEST(AttentionPlan, SplitsDecodesBeforePrefillsAndStartsTheLongestFirst) {
  const std::vector<AttentionSequence> sequences = {
      {.first_row = 0, .num_rows = 64, .first_position = 1936, .pages = {}},
      {.first_row = 64, .num_rows = 1, .first_position = 999, .pages = {}}};
  const AttentionPlan plan({.dtype = DType::kBF16,
                            .num_heads = 1,
                            .num_kv_heads = 1,
                            .head_dim = 128,
                            .num_multiprocessors = 100,
                            .max_partials = 512},
                           sequences);
  ASSERT_EQ(plan.items().size(), 5u);
  EXPECT_EQ(plan.items().front().tile, 0);
  EXPECT_EQ(plan.items().front().end_split, 8);
  EXPECT_EQ(plan.num_partials(), 4);
}

TEST(AttentionPlan, IsWrittenAsTheKernelsReadIt) {
  const std::vector<AttentionSequence> sequences = {
      {.first_row = 0, .num_rows = 1, .first_position = 999, .pages = {}},
      {.first_row = 1, .num_rows = 2, .first_position = 0, .pages = {}}};
  const AttentionPlan plan({.num_heads = 1, .num_kv_heads = 1, .head_dim = 8}, sequences);
  std::byte* pages[2] = {};
  std::byte* const* const tables_of[2] = {&pages[0], &pages[1]};
  std::vector<std::byte> lists(plan.lists_bytes());
  AttentionTables tables;
  plan.Write(tables, lists.data(), lists.data(), tables_of);
  ASSERT_EQ(tables.num_tiles, 3);
  ASSERT_EQ(tables.num_items, 3);
  EXPECT_EQ(tables.tiles[0].pages, tables_of[0]);
  EXPECT_EQ(tables.tiles[1].pages, tables_of[1]);
  EXPECT_EQ(tables.tiles[2].pages, tables_of[1]);
  EXPECT_EQ(tables.items[0].tile, 0);
  EXPECT_EQ(tables.items[0].end_split, 4);
}

}  // namespace
}  // namespace aril::kernels
