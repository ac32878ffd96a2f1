#include "kernels/attention/attention_plan.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/checked.h"

namespace aril::kernels {
namespace {

// Of prefills, until there are so many, splits get blocks of their own: two or three fit on a
// multiprocessor, and the last ones should not run alone.
constexpr int64_t kItemsPerMultiprocessor = 4;

}  // namespace

AttentionPlan::AttentionPlan(const AttentionPlanShape& shape,
                             std::span<const AttentionSequence> sequences)
    : shape_(shape), group_(shape.num_heads / shape.num_kv_heads) {
  CHECK_EQ(shape.num_heads, group_ * shape.num_kv_heads);
  for (size_t i = 0; i < sequences.size(); ++i) {
    AddTiles(sequences[i], static_cast<int32_t>(i));
  }
  const auto is_decode = [&](size_t tile) {
    return sequences[static_cast<size_t>(sequence_of_[tile])].num_rows == 1;
  };
  int64_t num_prefill_tiles = 0;
  for (size_t i = 0; i < tiles_.size(); ++i) num_prefill_tiles += is_decode(i) ? 0 : 1;
  const int64_t pieces = kItemsPerMultiprocessor * shape.num_multiprocessors /
                         std::max<int64_t>(1, num_prefill_tiles * shape.num_kv_heads);
  const auto splits_per_item = [&](size_t tile) {
    const int64_t num_splits = end_splits_[tile] - tiles_[tile].first_split;
    return is_decode(tile) ? 1 : CeilDiv(num_splits, std::max<int64_t>(1, pieces));
  };
  // Decodes first: theirs is a small part of a prefill's, and alone a block has long to go.
  for (const bool of_decodes : {true, false}) {
    for (size_t i = 0; i < tiles_.size(); ++i) {
      if (is_decode(i) == of_decodes) TakePartials(i, splits_per_item(i));
    }
  }
  // Blocks start in this order, and what takes longest should not start last: of items with as many
  // splits prefills before decodes.
  for (const bool of_decodes : {false, true}) {
    for (size_t i = 0; i < tiles_.size(); ++i) {
      if (is_decode(i) == of_decodes) AddItems(i, splits_per_item(i));
    }
  }
  std::ranges::stable_sort(items_, std::ranges::greater(), [](const AttentionItem& item) {
    return item.end_split - item.first_split;
  });
}

void AttentionPlan::AddTiles(const AttentionSequence& sequence, int32_t index) {
  const int64_t num_queries = sequence.num_rows * group_;
  if (sequence.num_rows > 1 && shape_.dtype != DType::kF32 &&
      shape_.head_dim <= kAttentionMaxWideHeadDim) {
    for (int64_t q = 0; q < num_queries; q += kAttentionWideQueries) {
      AddTile(sequence, index, q, std::min(q + kAttentionWideQueries, num_queries), true);
    }
    return;
  }
  const int64_t narrow =
      shape_.dtype == DType::kF32 ? kAttentionF32Queries : kAttentionNarrowQueries;
  for (int64_t row = 0; row < num_queries; row += group_) {
    for (int64_t q = row; q < row + group_; q += narrow) {
      AddTile(sequence, index, q, std::min(q + narrow, row + group_), false);
    }
  }
}

void AttentionPlan::AddTile(const AttentionSequence& sequence, int32_t index, int64_t first,
                            int64_t end, bool is_wide) {
  const int64_t first_visible = sequence.first_position + first / group_ + 1 - shape_.window;
  const int64_t end_visible = sequence.first_position + (end - 1) / group_ + 1;
  tiles_.push_back(
      {.first_position = sequence.first_position,
       .first_row = sequence.first_row,
       .first_query = static_cast<int32_t>(first),
       .num_queries = static_cast<int32_t>(end - first),
       .is_wide = is_wide ? 1 : 0,
       .first_split = static_cast<int32_t>(std::max<int64_t>(0, first_visible) / kAttentionSplit)});
  sequence_of_.push_back(index);
  end_splits_.push_back(static_cast<int32_t>(CeilDiv<int64_t>(end_visible, kAttentionSplit)));
}

// Not for a tile whose one item has all splits, or if there is no memory for the results of
// several.
void AttentionPlan::TakePartials(size_t index, int64_t splits_per_item) {
  AttentionDeviceTile& tile = tiles_[index];
  const int32_t num_splits = end_splits_[index] - tile.first_split;
  const int32_t num_partials = num_splits * tile.num_queries;
  if (num_splits <= splits_per_item || num_partials_ + num_partials > shape_.max_partials) return;
  tile.first_partial = num_partials_;
  num_partials_ += num_partials;
}

void AttentionPlan::AddItems(size_t index, int64_t splits_per_item) {
  const AttentionDeviceTile& tile = tiles_[index];
  const int32_t end_split = end_splits_[index];
  const int32_t step = tile.first_partial < 0 ? std::max(1, end_split - tile.first_split)
                                              : static_cast<int32_t>(splits_per_item);
  for (int32_t split = tile.first_split; split < end_split; split += step) {
    items_.push_back({static_cast<int32_t>(index), split, std::min(split + step, end_split)});
  }
}

bool AttentionPlan::has_wide_tiles() const {
  return std::ranges::any_of(tiles_,
                             [](const AttentionDeviceTile& tile) { return tile.is_wide != 0; });
}

size_t AttentionPlan::lists_bytes() const {
  return tiles_.size() * sizeof(AttentionDeviceTile) + items_.size() * sizeof(AttentionItem);
}

void AttentionPlan::Write(AttentionTables& tables, std::byte* to, const std::byte* at,
                          std::span<std::byte* const* const> pages) const {
  const size_t tile_bytes = tiles_.size() * sizeof(AttentionDeviceTile);
  tables = {.tiles = reinterpret_cast<const AttentionDeviceTile*>(at),
            .items = reinterpret_cast<const AttentionItem*>(at + tile_bytes),
            .num_tiles = static_cast<int32_t>(tiles_.size()),
            .num_items = static_cast<int32_t>(items_.size()),
            .num_partials = num_partials_};
  auto* const written = reinterpret_cast<AttentionDeviceTile*>(to);
  for (size_t i = 0; i < tiles_.size(); ++i) {
    written[i] = tiles_[i];
    written[i].pages = pages[static_cast<size_t>(sequence_of_[i])];
  }
  std::memcpy(to + tile_bytes, items_.data(), items_.size() * sizeof(AttentionItem));
}

size_t MaxAttentionListsBytes(int64_t group, int64_t max_rows, int64_t max_positions) {
  // As if each row had narrow tiles of its own, and each split of one an item.
  constexpr int64_t kFewestQueries = std::min(kAttentionF32Queries, kAttentionNarrowQueries);
  static_assert(kFewestQueries <= kAttentionWideQueries);
  const int64_t tiles = max_rows * CeilDiv(group, kFewestQueries);
  const int64_t items = tiles * CeilDiv<int64_t>(max_positions, kAttentionSplit);
  return static_cast<size_t>(tiles) * sizeof(AttentionDeviceTile) +
         static_cast<size_t>(items) * sizeof(AttentionItem);
}

}  // namespace aril::kernels
