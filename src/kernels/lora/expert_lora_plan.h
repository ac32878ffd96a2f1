// Plans a step's LoRA work at experts for a device: which rows have which adapters. The rest the
// device finds out (expert_lora_cuda.h).

#ifndef ARIL_KERNELS_LORA_EXPERT_LORA_PLAN_H_
#define ARIL_KERNELS_LORA_EXPERT_LORA_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/lora/expert_lora_cuda.h"

namespace aril::kernels {

// Consecutive rows with an adapter that changes experts.
struct ExpertLoraSegment {
  int32_t first_row = 0;
  int32_t num_rows = 0;
  float weight = 1;
  const ExpertLoraLayer* layers = nullptr;  // a device address
  int32_t rank = 0;                         // at least that of any of them
};

class ExpertLoraPlan {
 public:
  // Segments in the order in which those that share rows are applied.
  explicit ExpertLoraPlan(std::span<const ExpertLoraSegment> segments);

  const std::vector<ExpertLoraRun>& runs() const { return runs_; }
  const std::vector<ExpertLoraEntry>& entries() const { return entries_; }
  int32_t max_entries() const { return max_entries_; }
  int32_t max_rank() const { return max_rank_; }

  // What ExpertLoraTables describes, for launches of `rows` rows. Write fills `to`
  // [table_bytes(rows)].
  size_t table_bytes(int32_t rows) const;
  void Write(std::byte* to, int32_t rows) const;

 private:
  std::vector<ExpertLoraRun> runs_;
  std::vector<ExpertLoraEntry> entries_;
  int32_t max_entries_ = 0;
  int32_t max_rank_ = 0;
};

// The most that steps of up to `rows` rows need, none of which has more than `max_entries`
// adapters.
size_t MaxExpertLoraTableBytes(int32_t rows, int32_t max_entries);

// Parts of V along `in`, in launches of `rows` rows: each has a block of its own where there are
// few rows.
int32_t ExpertLoraPartials(int64_t in, int32_t rows);
// Floats of V.
int64_t ExpertLoraVFloats(int64_t places, int32_t max_entries, int32_t num_targets,
                          int32_t partials, int32_t max_rank);

}  // namespace aril::kernels

#endif  // ARIL_KERNELS_LORA_EXPERT_LORA_PLAN_H_
