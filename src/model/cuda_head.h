// What the kernels of one call of Logits or Choose read about its rows, as one table: their
// numbers, how tokens are chosen, and the parts of adapters that change lm_head.

#ifndef ARIL_MODEL_CUDA_HEAD_H_
#define ARIL_MODEL_CUDA_HEAD_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "kernels/gemm/paged_gemm_plan.h"
#include "kernels/lora/lora_plan.h"
#include "kernels/sampling/sampling_cuda.h"
#include "model/backend.h"
#include "model/cuda_adapters.h"
#include "spec/model_spec.h"

namespace aril {

// A segment of the batch whose adapter changes lm_head.
struct CudaHeadSegment {
  BatchSegment segment;
  CudaAdapters::Table table;
};

// The row of logits i is that of row rows[i] of the batch, here too.
class CudaHead {
 public:
  // `rows` ascending; `how` of each, or nothing. Both must stay until Write.
  CudaHead(const ModelSpec& spec, int num_multiprocessors, std::span<const int32_t> rows,
           std::span<const kernels::SampleRow> how, std::span<const CudaHeadSegment> segments);

  std::span<const int32_t> rows() const { return rows_; }
  // Columns of the logits: the base model's vocabulary, or more for those of adapters. And of any.
  int64_t width() const { return width_; }
  static int64_t WidestWidth(const ModelSpec& spec);

  // Products with matrices that adapters have in place of lm_head; then what others add.
  bool has_own() const { return own_.has_value(); }
  bool has_lora() const { return lora_.has_value(); }
  int32_t max_rank() const { return lora_ ? lora_->max_rank() : 0; }
  int64_t v_floats() const { return lora_ ? lora_->v_floats() : 0; }

  // Of the table, which begins with the rows.
  size_t how_offset() const { return how_offset_; }    // SampleRow [rows]
  size_t own_offset() const { return own_offset_; }    // PagedGemmTables
  size_t lora_offset() const { return lora_offset_; }  // LoraTables
  size_t size_bytes() const { return size_bytes_; }
  void Write(std::byte* to) const;

 private:
  void PlanOwn(std::span<const CudaHeadSegment> segments);
  void PlanLora(const ModelSpec& spec, int num_multiprocessors,
                std::span<const CudaHeadSegment> segments);
  void Place();

  std::span<const int32_t> rows_;
  std::span<const kernels::SampleRow> how_;
  int64_t width_;
  std::optional<kernels::PagedGemmPlan> own_;
  std::optional<kernels::LoraPlan> lora_;
  size_t how_offset_ = 0, own_offset_ = 0, lora_offset_ = 0, size_bytes_ = 0;
};

}  // namespace aril

#endif  // ARIL_MODEL_CUDA_HEAD_H_
