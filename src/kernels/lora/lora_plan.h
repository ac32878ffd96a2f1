// Plans a step's LoRA work for a device: which block takes which rows, ranks and columns.
//
// The plan is made on the host once per step and group of projections that share an input, uploaded
// in one copy, and used by that group's shrink and expand of every layer: it needs only an upper
// bound of each segment's ranks. Adapters' matrices lie on the device already, described by
// LoraDeviceWeights; a launch's weights_offset selects the layer.
//
// A plan decides only who computes what: no choice in it changes a bit of the result.

#ifndef ARIL_KERNELS_LORA_LORA_PLAN_H_
#define ARIL_KERNELS_LORA_LORA_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "kernels/lora/lora.h"
#include "kernels/lora/lora_cuda.h"

namespace aril::kernels {

// A LoraSegment whose weights are on the device.
struct LoraPlanSegment {
  int32_t first_row = 0;
  int32_t num_rows = 0;
  float weight = 1;
  const LoraDeviceWeights* weights = nullptr;  // a device address: of the first target
  std::span<const int32_t> ranks;              // per target, at least the adapter's; 0: not touched
  // Not 0: columns of the only target, in place of the shape's; the same for all that share rows.
  int64_t out = 0;
};

struct LoraPlanShape {
  int64_t in = 0;
  std::span<const int64_t> outs;  // per target, at most kLoraMaxTargets
  int num_multiprocessors = 1;
  // Not 0: B and gain of the only target lie in blocks of so many columns (lm_head's), each with
  // LoraDeviceWeights of its own, one behind the other, all of one rank. A is the first one's.
  int64_t block_cols = 0;
};

// The most that any step may need, so that memory is taken once and launches can be captured: with
// this max_rank, not a step's.
struct LoraPlanBounds {
  int64_t table_bytes = 0;
  int64_t v_floats = 0;
  int32_t max_rank = 0;
};

class LoraPlan {
 public:
  // Segments in the order in which those that share rows are applied. Ranks are at most
  // kLoraMaxExpandRank.
  LoraPlan(const LoraPlanShape& shape, std::span<const LoraPlanSegment> segments);

  const std::vector<LoraShrinkItem>& shrink_items() const { return shrink_items_; }
  const std::vector<LoraExpandItem>& expand_items() const { return expand_items_; }
  const std::vector<LoraExpandEntry>& entries() const { return entries_; }
  int64_t v_floats() const { return v_floats_; }
  int32_t max_rank() const { return max_rank_; }

  // FailedPrecondition, saying what is too much, for a step that needs more than `bounds`: it must
  // not be written where launches for those bounds would read it.
  Status CheckWithin(const LoraPlanBounds& bounds) const;

  // What LoraTables describes, for one copy to the device. Write fills `to` [table_bytes()].
  int64_t table_bytes() const;
  void Write(std::byte* to) const;

 private:
  struct Part;

  void ChooseItems(std::span<const LoraPlanSegment> segments);
  std::vector<Part> MakeParts(std::span<const LoraPlanSegment> segments);
  void PlanShrink(const Part& part);
  void PlanExpand(std::span<const LoraPlanSegment> segments, const std::vector<Part>& parts);
  void PlanTile(const std::vector<const Part*>& parts, int32_t first_row, int32_t num_rows,
                int64_t cols_per_item);

  LoraPlanShape shape_;
  int32_t num_chunks_;
  int32_t split_rows_ = 0;   // of a segment that is split along `in`, at most
  int32_t shrink_rows_ = 0;  // of an item
  int32_t max_rank_ = 0;
  int64_t v_floats_ = 0;
  std::vector<LoraShrinkItem> shrink_items_;
  std::vector<LoraExpandItem> expand_items_;
  std::vector<LoraExpandEntry> entries_;
};

// For steps of at most `max_segments` segments with `max_rows` rows in all (a row counts for each
// of its segments) and ranks up to `max_rank`.
LoraPlanBounds BoundLoraPlan(const LoraPlanShape& shape, int64_t max_segments, int64_t max_rows,
                             int64_t max_rank);

// The description of a matrix whose runs, on the device too, are at `device_runs`.
LoraDeviceMatrix DescribeLoraMatrix(const LoraMatrix& matrix, const MatrixRun* device_runs);

}  // namespace aril::kernels

#endif  // ARIL_KERNELS_LORA_LORA_PLAN_H_
