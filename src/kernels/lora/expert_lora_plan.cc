#include "kernels/lora/expert_lora_plan.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "base/check.h"
#include "base/checked.h"

namespace aril::kernels {
namespace {

// As of a segment that LoraPlan splits along `in`.
constexpr int32_t kSplitRows = 256;

constexpr size_t kAlignment = alignof(ExpertLoraEntry);
static_assert(alignof(ExpertLoraRun) <= kAlignment);

size_t RunsOffset(int32_t rows) {
  return RoundUp(sizeof(ExpertLoraTables) + static_cast<size_t>(rows) * sizeof(int32_t),
                 kAlignment);
}

size_t TableBytes(int32_t rows, size_t runs, size_t entries) {
  return RoundUp(RunsOffset(rows) + runs * sizeof(ExpertLoraRun), kAlignment) +
         entries * sizeof(ExpertLoraEntry);
}

}  // namespace

ExpertLoraPlan::ExpertLoraPlan(std::span<const ExpertLoraSegment> segments) {
  // Between two of these, rows have the same adapters.
  std::set<int32_t> ends;
  for (const ExpertLoraSegment& segment : segments) {
    CHECK_GE(segment.first_row, 0);
    CHECK_GT(segment.num_rows, 0);
    CHECK(segment.rank > 0 && segment.rank <= kLoraMaxExpandRank);
    ends.insert(segment.first_row);
    ends.insert(segment.first_row + segment.num_rows);
    max_rank_ = std::max(max_rank_, segment.rank);
  }
  int32_t first_row = ends.empty() ? 0 : *ends.begin();
  for (const int32_t end : ends) {
    if (end == first_row) continue;
    ExpertLoraRun run{first_row, end - first_row, static_cast<int32_t>(entries_.size()), 0};
    for (const ExpertLoraSegment& segment : segments) {
      if (segment.first_row > first_row || segment.first_row + segment.num_rows < end) continue;
      entries_.push_back({segment.layers, segment.weight});
      ++run.num_entries;
    }
    if (run.num_entries > 0) runs_.push_back(run);
    max_entries_ = std::max(max_entries_, run.num_entries);
    first_row = end;
  }
}

size_t ExpertLoraPlan::table_bytes(int32_t rows) const {
  return TableBytes(rows, runs_.size(), entries_.size());
}

void ExpertLoraPlan::Write(std::byte* to, int32_t rows) const {
  const size_t runs_offset = RunsOffset(rows);
  const size_t entries_offset = table_bytes(rows) - entries_.size() * sizeof(ExpertLoraEntry);
  const ExpertLoraTables tables{max_entries_, max_rank_, static_cast<int64_t>(runs_offset),
                                static_cast<int64_t>(entries_offset)};
  std::memset(to, 0, table_bytes(rows));
  std::memcpy(to, &tables, sizeof(tables));
  auto* const runs_of_rows = reinterpret_cast<int32_t*>(to + sizeof(tables));
  std::fill_n(runs_of_rows, rows, -1);
  for (size_t i = 0; i < runs_.size(); ++i) {
    CHECK_LE(runs_[i].first_row + runs_[i].num_rows, rows);
    std::fill_n(runs_of_rows + runs_[i].first_row, runs_[i].num_rows, static_cast<int32_t>(i));
  }
  std::ranges::copy(runs_, reinterpret_cast<ExpertLoraRun*>(to + runs_offset));
  std::ranges::copy(entries_, reinterpret_cast<ExpertLoraEntry*>(to + entries_offset));
}

size_t MaxExpertLoraTableBytes(int32_t rows, int32_t max_entries) {
  const auto runs = static_cast<size_t>(rows);
  return TableBytes(rows, runs, runs * static_cast<size_t>(max_entries));
}

int32_t ExpertLoraPartials(int64_t in, int32_t rows) {
  return rows <= kSplitRows ? static_cast<int32_t>(CeilDiv(in, int64_t{kLoraChunk})) : 1;
}

int64_t ExpertLoraVFloats(int64_t places, int32_t max_entries, int32_t num_targets,
                          int32_t partials, int32_t max_rank) {
  return places * max_entries * num_targets * partials * max_rank;
}

}  // namespace aril::kernels
