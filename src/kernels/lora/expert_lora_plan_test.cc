#include "kernels/lora/expert_lora_plan.h"

#include <cstring>
#include <span>
#include <vector>

#include "gtest/gtest.h"

namespace aril::kernels {
namespace {

struct Rows {
  int32_t first_row, num_rows;
  std::vector<float> weights;  // of its entries: they tell the segments apart

  friend bool operator==(const Rows&, const Rows&) = default;
};

std::vector<Rows> RunsOf(const ExpertLoraPlan& plan) {
  std::vector<Rows> runs;
  for (const ExpertLoraRun& run : plan.runs()) {
    runs.push_back({run.first_row, run.num_rows, {}});
    const auto entries =
        std::span(plan.entries())
            .subspan(static_cast<size_t>(run.first_entry), static_cast<size_t>(run.num_entries));
    for (const ExpertLoraEntry& entry : entries) runs.back().weights.push_back(entry.weight);
  }
  return runs;
}

TEST(ExpertLoraPlan, RunsAreRowsWithTheSameAdapters) {
  const std::vector<ExpertLoraSegment> segments = {
      {2, 3, 1, nullptr, 4}, {5, 1, 2, nullptr, 9}, {8, 4, 3, nullptr, 1}, {9, 2, 4, nullptr, 2}};
  const ExpertLoraPlan plan(segments);
  EXPECT_EQ(
      RunsOf(plan),
      (std::vector<Rows>{{2, 3, {1}}, {5, 1, {2}}, {8, 1, {3}}, {9, 2, {3, 4}}, {11, 1, {3}}}));
  EXPECT_EQ(plan.max_entries(), 2);
  EXPECT_EQ(plan.max_rank(), 9);
}

TEST(ExpertLoraPlan, FromTheFirstRowOnThereIsNoEmptyRun) {
  const std::vector<ExpertLoraSegment> segments = {{0, 1, 1, nullptr, 4}, {0, 2, 2, nullptr, 4}};
  EXPECT_EQ(RunsOf(ExpertLoraPlan(segments)), (std::vector<Rows>{{0, 1, {1, 2}}, {1, 1, {2}}}));
}

TEST(ExpertLoraPlan, OfNoSegmentsHasNothing) {
  const ExpertLoraPlan plan({});
  EXPECT_TRUE(plan.runs().empty());
  EXPECT_EQ(plan.max_entries(), 0);
  std::vector<std::byte> table(plan.table_bytes(3));
  plan.Write(table.data(), 3);
  for (size_t row = 0; row < 3; ++row) {
    int32_t run;
    std::memcpy(&run, &table[sizeof(ExpertLoraTables) + row * sizeof(run)], sizeof(run));
    EXPECT_EQ(run, -1);
  }
}

TEST(ExpertLoraPlan, WritesWhereItsTablesSay) {
  const ExpertLoraLayer layer;
  const std::vector<ExpertLoraSegment> segments = {{1, 2, 0.5F, &layer, 4}};
  const ExpertLoraPlan plan(segments);
  constexpr int32_t kRows = 5;
  std::vector<std::byte> bytes(plan.table_bytes(kRows));
  plan.Write(bytes.data(), kRows);
  ExpertLoraTables tables;
  std::memcpy(&tables, bytes.data(), sizeof(tables));
  EXPECT_EQ(tables.max_entries, 1);
  EXPECT_EQ(tables.max_rank, 4);
  std::vector<int32_t> runs_of_rows(kRows);
  std::memcpy(runs_of_rows.data(), &bytes[sizeof(tables)], kRows * sizeof(int32_t));
  EXPECT_EQ(runs_of_rows, (std::vector<int32_t>{-1, 0, 0, -1, -1}));
  ExpertLoraRun run;
  std::memcpy(&run, &bytes[static_cast<size_t>(tables.runs_offset)], sizeof(run));
  EXPECT_EQ(run.first_row, 1);
  EXPECT_EQ(run.num_rows, 2);
  ExpertLoraEntry entry;
  std::memcpy(&entry, &bytes[static_cast<size_t>(tables.entries_offset)], sizeof(entry));
  EXPECT_EQ(entry.layers, &layer);
  EXPECT_EQ(entry.weight, 0.5F);
}

// Each row a run of its own, with as many adapters as there may be.
TEST(ExpertLoraPlan, NoStepNeedsMoreThanTheMost) {
  for (const int32_t rows : {1, 7, 64}) {
    for (const int32_t max_entries : {1, 4}) {
      std::vector<ExpertLoraSegment> segments;
      for (int32_t row = 0; row < rows; ++row) {
        for (int32_t e = 0; e < max_entries; ++e) segments.push_back({row, 1, 1, nullptr, 1});
      }
      const ExpertLoraPlan plan(segments);
      EXPECT_EQ(plan.table_bytes(rows), MaxExpertLoraTableBytes(rows, max_entries));
    }
  }
}

}  // namespace
}  // namespace aril::kernels
