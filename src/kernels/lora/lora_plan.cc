#include "kernels/lora/lora_plan.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <set>
#include <string>

#include "base/check.h"

namespace aril::kernels {
namespace {

// A segment up to this long is split along `in`, a block for each chunk, and the expand adds up the
// partials. Longer ones are if they leave half of the places empty; else their partials would be
// more to read than is won.
constexpr int32_t kSplitRows = 256;
// Columns that a block expands at once; an item has a multiple of them.
constexpr int64_t kExpandCols = 256;
// A block that takes several column tiles reads V and the descriptions once for all of them. All
// blocks that fit the device at a time should have work, but none of them a second item: some more
// items than places take as long as twice as many.
constexpr int64_t kItemsPerMultiprocessor = 4;

// The fewest rows of an item. A block takes eight after eight, and its matrix for all of them: few
// are faster while no block has a second item.
constexpr int32_t kFewRows = 8;

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

int64_t BlockCols(const LoraPlanShape& shape, int64_t out) {
  return shape.block_cols > 0 ? shape.block_cols : out;
}

// Pieces of up to `cols` columns, of all targets.
int64_t NumColumnTiles(const LoraPlanShape& shape, int64_t cols) {
  int64_t tiles = 0;
  for (const int64_t out : shape.outs) {
    const int64_t block = BlockCols(shape, out);
    tiles += out / block * CeilDiv(block, cols) + CeilDiv(out % block, cols);
  }
  return tiles;
}

bool Aligned16(int64_t value) { return value % 16 == 0; }

int64_t Places(const LoraPlanShape& shape) {
  return kItemsPerMultiprocessor * shape.num_multiprocessors;
}

// Items, if segments of up to `split_rows` rows are split into `num_chunks`.
int64_t NumShrinkItems(std::span<const LoraPlanSegment> segments, int64_t rows_per_item,
                       int32_t split_rows, int64_t num_chunks) {
  int64_t items = 0;
  for (const LoraPlanSegment& segment : segments) {
    const int64_t tiles = CeilDiv(segment.num_rows, rows_per_item) *
                          (segment.num_rows <= split_rows ? num_chunks : 1);
    for (const int32_t rank : segment.ranks) items += tiles * CeilDiv(rank, kLoraRankTile);
  }
  return items;
}

// The fewest with which `tiles` of rows have no more items than there are places for blocks; or
// all, if they have more even then.
int64_t ColsPerItem(const LoraPlanShape& shape, int64_t tiles) {
  const int64_t places = Places(shape);
  int64_t widest = 0;
  for (const int64_t out : shape.outs) widest = std::max(widest, BlockCols(shape, out));
  int64_t cols = kExpandCols;
  while (cols < widest && tiles * NumColumnTiles(shape, cols) > places) cols += kExpandCols;
  return cols;
}

}  // namespace

// One segment at one target that it touches.
struct LoraPlan::Part {
  int32_t segment;
  int32_t target;
  int32_t first_row;
  int32_t num_rows;
  int32_t rank;
  int32_t num_partials;
  int64_t v_offset;
  float weight;
  const LoraDeviceWeights* weights;
  int64_t out;
};

LoraPlan::LoraPlan(const LoraPlanShape& shape, std::span<const LoraPlanSegment> segments)
    : shape_(shape), num_chunks_(static_cast<int32_t>(CeilDiv(shape.in, kLoraChunk))) {
  CHECK_GT(shape.in, 0);
  CHECK_LE(shape.in, INT32_MAX / 2);
  CHECK_LE(shape.outs.size(), size_t{kLoraMaxTargets});
  CHECK(shape.block_cols == 0 || shape.outs.size() == 1);
  ChooseItems(segments);
  const std::vector<Part> parts = MakeParts(segments);
  for (const Part& part : parts) PlanShrink(part);
  PlanExpand(segments, parts);
}

void LoraPlan::ChooseItems(std::span<const LoraPlanSegment> segments) {
  // Long segments count, whole; others are split anyway.
  std::vector<LoraPlanSegment> longer;
  std::ranges::copy_if(segments, std::back_inserter(longer),
                       [](const LoraPlanSegment& s) { return s.num_rows > kSplitRows; });
  const bool enough =
      2 * NumShrinkItems(longer, kLoraShrinkRows, /*split_rows=*/0, num_chunks_) > Places(shape_);
  split_rows_ = enough ? kSplitRows : INT32_MAX;
  shrink_rows_ = kFewRows;
  while (shrink_rows_ < kLoraShrinkRows &&
         NumShrinkItems(segments, shrink_rows_, split_rows_, num_chunks_) > Places(shape_)) {
    shrink_rows_ *= 2;
  }
}

std::vector<LoraPlan::Part> LoraPlan::MakeParts(std::span<const LoraPlanSegment> segments) {
  std::vector<Part> parts;
  for (size_t s = 0; s < segments.size(); ++s) {
    const LoraPlanSegment& segment = segments[s];
    CHECK_GE(segment.first_row, 0);
    CHECK_GE(segment.num_rows, 0);
    CHECK_EQ(segment.ranks.size(), shape_.outs.size());
    CHECK(segment.out == 0 || shape_.outs.size() == 1);
    for (size_t t = 0; t < segment.ranks.size(); ++t) {
      const int32_t rank = segment.ranks[t];
      CHECK_LE(rank, kLoraMaxExpandRank);
      if (rank == 0 || segment.num_rows == 0) continue;
      const int32_t partials = segment.num_rows <= split_rows_ ? num_chunks_ : 1;
      parts.push_back({static_cast<int32_t>(s), static_cast<int32_t>(t), segment.first_row,
                       segment.num_rows, rank, partials, v_floats_, segment.weight,
                       segment.weights + t, segment.out > 0 ? segment.out : shape_.outs[t]});
      v_floats_ += int64_t{partials} * segment.num_rows * rank;
      max_rank_ = std::max(max_rank_, rank);
    }
  }
  return parts;
}

void LoraPlan::PlanShrink(const Part& part) {
  const int32_t chunks_per_item = part.num_partials == 1 ? num_chunks_ : 1;
  for (int32_t chunk = 0; chunk < num_chunks_; chunk += chunks_per_item) {
    for (int32_t row = 0; row < part.num_rows; row += shrink_rows_) {
      for (int32_t rank = 0; rank < part.rank; rank += kLoraRankTile) {
        const int64_t partial_row = int64_t{chunk} * part.num_rows + row;
        shrink_items_.push_back({.weights = part.weights,
                                 .v_offset = part.v_offset + partial_row * part.rank,
                                 .v_stride = part.rank,
                                 .first_row = part.first_row + row,
                                 .num_rows = std::min(shrink_rows_, part.num_rows - row),
                                 .first_rank = rank,
                                 .first_chunk = chunk,
                                 .num_chunks = chunks_per_item});
      }
    }
  }
}

// Cuts the rows wherever a segment begins or ends: between two cuts all rows have the same
// segments.
void LoraPlan::PlanExpand(std::span<const LoraPlanSegment> segments,
                          const std::vector<Part>& parts) {
  std::vector<int32_t> cuts;
  for (const LoraPlanSegment& segment : segments) {
    cuts.insert(cuts.end(), {segment.first_row, segment.first_row + segment.num_rows});
  }
  std::ranges::sort(cuts);
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());

  const auto num_tiles = [&](int32_t rows) {
    int64_t tiles = 0;
    for (size_t i = 1; i < cuts.size(); ++i) tiles += CeilDiv(cuts[i] - cuts[i - 1], rows);
    return tiles;
  };
  const bool few = num_tiles(kFewRows) * NumColumnTiles(shape_, kExpandCols) <= Places(shape_);
  const int32_t rows_per_item = few ? kFewRows : kLoraExpandRows;
  const int64_t cols_per_item = ColsPerItem(shape_, num_tiles(rows_per_item));

  // Parts in the order in which they begin; those of the rows at hand, in the order of the list.
  std::vector<const Part*> by_row;
  for (const Part& part : parts) by_row.push_back(&part);
  std::ranges::stable_sort(by_row, {}, &Part::first_row);
  std::set<const Part*> active;  // pointers into one vector: their order is the list's
  size_t next = 0;
  for (size_t i = 1; i < cuts.size(); ++i) {
    const int32_t begin = cuts[i - 1], end = cuts[i];
    std::erase_if(active, [&](const Part* p) { return p->first_row + p->num_rows <= begin; });
    for (; next < by_row.size() && by_row[next]->first_row == begin; ++next) {
      active.insert(by_row[next]);
    }
    for (int32_t row = begin; row < end && !active.empty(); row += rows_per_item) {
      PlanTile({active.begin(), active.end()}, row, std::min(rows_per_item, end - row),
               cols_per_item);
    }
  }
}

void LoraPlan::PlanTile(const std::vector<const Part*>& parts, int32_t first_row, int32_t num_rows,
                        int64_t cols_per_item) {
  for (int32_t target = 0; target < static_cast<int32_t>(shape_.outs.size()); ++target) {
    const auto first_entry = static_cast<int32_t>(entries_.size());
    int64_t out = 0;
    for (const Part* part : parts) {
      if (part->target != target) continue;
      CHECK(out == 0 || out == part->out);
      out = part->out;
      entries_.push_back(
          {.weights = part->weights,
           .v_offset = part->v_offset + int64_t{first_row - part->first_row} * part->rank,
           .v_partial_stride = int64_t{part->num_rows} * part->rank,
           .v_stride = part->rank,
           .num_partials = part->num_partials,
           .weight = part->weight});
    }
    const int32_t num_entries = static_cast<int32_t>(entries_.size()) - first_entry;
    if (num_entries == 0) continue;
    const int64_t block_cols = BlockCols(shape_, out);
    for (int64_t first = 0; first < out; first += block_cols) {
      const int64_t width = std::min(block_cols, out - first);
      for (int64_t col = 0; col < width; col += cols_per_item) {
        expand_items_.push_back(
            {.first_entry = first_entry,
             .num_entries = num_entries,
             .first_row = first_row,
             .num_rows = num_rows,
             .target = target,
             .first_col = static_cast<int32_t>(col),
             .num_cols = static_cast<int32_t>(std::min(cols_per_item, width - col)),
             .block = static_cast<int32_t>(first / block_cols),
             .block_col = static_cast<int32_t>(first)});
      }
    }
  }
}

Status LoraPlan::CheckWithin(const LoraPlanBounds& bounds) const {
  const auto check = [](const char* what, int64_t needed, int64_t bound) {
    if (needed <= bound) return OkStatus();
    return FailedPrecondition(std::string("a step's LoRA plan has ") + what + " " +
                              std::to_string(needed) + ", and its launches were made for " +
                              std::to_string(bound));
  };
  RETURN_IF_ERROR(check("ranks up to", max_rank_, bounds.max_rank));
  RETURN_IF_ERROR(check("table bytes", table_bytes(), bounds.table_bytes));
  return check("floats of V", v_floats_, bounds.v_floats);
}

int64_t LoraPlan::table_bytes() const {
  return static_cast<int64_t>(sizeof(LoraTables) + shrink_items_.size() * sizeof(LoraShrinkItem) +
                              expand_items_.size() * sizeof(LoraExpandItem) + sizeof(int64_t) +
                              entries_.size() * sizeof(LoraExpandEntry));
}

void LoraPlan::Write(std::byte* to) const {
  const size_t expand = sizeof(LoraTables) + shrink_items_.size() * sizeof(LoraShrinkItem);
  // Entries hold addresses.
  const size_t entries =
      static_cast<size_t>(CeilDiv(
          static_cast<int64_t>(expand + expand_items_.size() * sizeof(LoraExpandItem)), 8)) *
      8;
  const LoraTables tables{.num_shrink_items = static_cast<int32_t>(shrink_items_.size()),
                          .num_expand_items = static_cast<int32_t>(expand_items_.size()),
                          .max_rank = max_rank_,
                          .expand_items_offset = static_cast<int64_t>(expand),
                          .entries_offset = static_cast<int64_t>(entries)};
  const auto copy = [to](size_t offset, const auto& items) {
    if (!items.empty()) std::memcpy(to + offset, items.data(), items.size() * sizeof(items[0]));
  };
  std::memcpy(to, &tables, sizeof(tables));
  copy(sizeof(tables), shrink_items_);
  copy(expand, expand_items_);
  copy(entries, entries_);
}

LoraPlanBounds BoundLoraPlan(const LoraPlanShape& shape, int64_t max_segments, int64_t max_rows,
                             int64_t max_rank) {
  CHECK_LE(max_rank, kLoraMaxExpandRank);
  const int64_t chunks = CeilDiv(shape.in, kLoraChunk);
  const auto targets = static_cast<int64_t>(shape.outs.size());
  // Each segment may have one tile that is not full, and cuts those of others twice.
  const int64_t shrink_tiles = max_segments + max_rows / kFewRows;
  const int64_t expand_tiles = 2 * max_segments + max_rows / kFewRows;
  const int64_t shrink_items = shrink_tiles * chunks * CeilDiv(max_rank, kLoraRankTile) * targets;
  // Each tile has, at each target, an entry for each segment of its rows.
  const int64_t entries =
      std::min(expand_tiles * max_segments, 2 * max_segments * max_segments + max_rows) * targets;
  return {.table_bytes = static_cast<int64_t>(sizeof(LoraTables) + sizeof(int64_t)) +
                         shrink_items * static_cast<int64_t>(sizeof(LoraShrinkItem)) +
                         expand_tiles * NumColumnTiles(shape, kExpandCols) *
                             static_cast<int64_t>(sizeof(LoraExpandItem)) +
                         entries * static_cast<int64_t>(sizeof(LoraExpandEntry)),
          .v_floats = max_rows * max_rank * chunks * targets,
          .max_rank = static_cast<int32_t>(max_rank)};
}

LoraDeviceMatrix DescribeLoraMatrix(const LoraMatrix& matrix, const MatrixRun* device_runs) {
  if (matrix.runs.empty()) return {};
  bool aligned = Aligned16(matrix.row_stride_bytes);
  for (const MatrixRun& run : matrix.runs) {
    aligned = aligned && Aligned16(static_cast<int64_t>(reinterpret_cast<intptr_t>(run.data)));
  }
  return {.first_data = matrix.runs[0].data,
          .row_stride_bytes = matrix.row_stride_bytes,
          .runs = device_runs,
          .num_runs = static_cast<int32_t>(matrix.runs.size()),
          .first_num_rows = matrix.runs[0].num_rows,
          .aligned16 = aligned ? 1 : 0};
}

}  // namespace aril::kernels
