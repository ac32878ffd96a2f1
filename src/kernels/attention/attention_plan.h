// Plans a step's attention for a device: who is in which tile, and which block computes which
// splits of it. The plan is made on the host once per step, uploaded with its other tables, and
// used by all layers that see as many keys.
//
// A plan decides only who computes what: no choice in it changes a bit of the result.

#ifndef ARIL_KERNELS_ATTENTION_ATTENTION_PLAN_H_
#define ARIL_KERNELS_ATTENTION_ATTENTION_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/attention/attention.h"
#include "kernels/attention/attention_cuda.h"

namespace aril::kernels {

struct AttentionPlanShape {
  DType dtype = DType::kF32;
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;
  int64_t window = INT64_MAX;
  int num_multiprocessors = 1;
  int64_t max_partials = 0;  // what there is memory for
};

class AttentionPlan {
 public:
  AttentionPlan(const AttentionPlanShape& shape, std::span<const AttentionSequence> sequences);

  const std::vector<AttentionDeviceTile>& tiles() const { return tiles_; }
  const std::vector<AttentionItem>& items() const { return items_; }
  int32_t num_partials() const { return num_partials_; }
  bool is_split() const { return num_partials_ > 0; }
  bool has_wide_tiles() const;

  // AttentionTables, and what it points to, for copies to the device. Write fills both: `tables`
  // and `to` [lists_bytes()], which will lie at `at`; `pages` are the sequences' page tables there.
  size_t lists_bytes() const;
  void Write(AttentionTables& tables, std::byte* to, const std::byte* at,
             std::span<std::byte* const* const> pages) const;

 private:
  void AddTiles(const AttentionSequence& sequence, int32_t index);
  void AddTile(const AttentionSequence& sequence, int32_t index, int64_t first, int64_t end,
               bool is_wide);
  void TakePartials(size_t tile, int64_t splits_per_item);
  void AddItems(size_t tile, int64_t splits_per_item);

  AttentionPlanShape shape_;
  int64_t group_;
  std::vector<AttentionDeviceTile> tiles_;
  std::vector<int32_t> sequence_of_;  // each tile's
  std::vector<int32_t> end_splits_;   // likewise
  std::vector<AttentionItem> items_;
  int32_t num_partials_ = 0;
};

// What no plan's lists_bytes() exceeds for up to `max_rows` rows in all, at positions below
// `max_positions`, each with `group` queries for a K and V head.
size_t MaxAttentionListsBytes(int64_t group, int64_t max_rows, int64_t max_positions);

}  // namespace aril::kernels

#endif  // ARIL_KERNELS_ATTENTION_ATTENTION_PLAN_H_
