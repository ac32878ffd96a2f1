// What a step's kernels read about its rows, as one table; and the shape of a step, which decides
// whether a captured graph fits it.

#ifndef ARIL_MODEL_CUDA_STEP_H_
#define ARIL_MODEL_CUDA_STEP_H_

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/checked.h"
#include "base/sequence_pages.h"
#include "kernels/attention/attention_plan.h"
#include "kernels/attention/kv_cuda.h"
#include "kernels/gated_delta/gated_delta_cuda.h"
#include "kernels/lora/expert_lora_plan.h"
#include "kernels/lora/lora_plan.h"
#include "model/backend.h"
#include "model/cuda_adapters.h"
#include "model/projection_group.h"
#include "spec/model_spec.h"

namespace aril {

// What has a LoraPlan in a step's table: the projection groups, a mixture's router, and the
// embedding. Models with experts have no plan for the groups of an MLP, others none for a router.
inline constexpr size_t kRouterPlan = kNumProjectionGroups;
inline constexpr size_t kEmbeddingPlan = kRouterPlan + 1;
inline constexpr size_t kNumStepPlans = kEmbeddingPlan + 1;

// Attention has a plan for the layers that see all keys, and one for those with a window: as many
// as the model has kinds of layers.
inline constexpr size_t kMaxAttentionPlans = 2;
inline size_t AttentionPlanOf(const ModelSpec& spec, int64_t layer) {
  return spec.HasWindow(layer) ? 1 : 0;
}
// Whether a layer has that plan.
std::array<bool, kMaxAttentionPlans> AttentionPlansOf(const ModelSpec& spec);

// What the launches of a step depend on; all else is in its table. Steps of one shape can be run by
// one graph: there everything is rounded up to what few shapes have.
struct CudaStepShape {
  int32_t rows = 0;  // launched; those beyond the batch's are of no sequence
  struct Attention {
    int32_t items = 0;  // kernels/attention/attention_cuda.h
    int32_t tiles = 0;  // 0: none is split
    bool has_wide_tiles = false;

    friend auto operator<=>(const Attention&, const Attention&) = default;
  };
  std::array<Attention, kMaxAttentionPlans> attention = {};
  // That linear attention is launched for: those that there are, and what rounds them up.
  int32_t sequences = 0;
  int32_t max_rank = 0;  // of the adapters; 0: none
  // Bit by bit, the plans that there are; of a rounded shape that has any, all that a layer has.
  uint32_t touched = 0;
  // Of steps in which an adapter changes experts: the rows whose experts are computed at a time
  // (model/cuda_experts.h). 0: none does.
  int32_t expert_chunk_rows = 0;
  // Whether an adapter has a matrix in place of the embedding.
  bool has_own_embeddings = false;
  bool is_rounded = false;

  bool Touches(size_t plan) const { return (touched >> plan & 1) != 0; }
  bool Touches(ProjectionGroup group) const { return Touches(static_cast<size_t>(group)); }

  friend auto operator<=>(const CudaStepShape&, const CudaStepShape&) = default;
};

// Where the parts of a table lie. The same for all steps of a rounded shape, but for the pages and
// the lists of attention, which only the table itself points to.
struct CudaStepLayout {
  size_t num_rows = 0;  // int32: of the batch
  size_t tokens = 0;    // int32 [rows]
  size_t kv_rows = 0;   // KvRow [rows]
  // Of models with linear attention, else nothing: DeltaSequence [sequences], and int32 [rows].
  size_t delta_sequences = 0, sequence_of_row = 0;
  std::array<size_t, kMaxAttentionPlans> attention = {};  // AttentionTables
  size_t own_embeddings = 0;                    // const LoraDeviceMatrix* [rows], or nothing
  std::array<size_t, kNumStepPlans> lora = {};  // LoraTables, and what belongs to them
  size_t expert_lora = 0;                       // ExpertLoraTables, likewise
  size_t pages = 0;                             // addresses
  std::array<size_t, kMaxAttentionPlans> attention_lists = {};
  size_t size_bytes = 0;
};

// One step's table, on the host.
class CudaStep {
 public:
  // `attention`: its window is the spec's. `tables`: of each segment's adapter. Steps of up to this
  // many rows, and no more than one segment for each of them, get a rounded shape.
  static constexpr int64_t kMaxRoundedRows = 64;
  // What is launched for so many rows, or fewer, at most.
  static int64_t MaxLaunchedRows(int64_t rows) { return RoundUp(rows, int64_t{8}); }

  CudaStep(const ModelSpec& spec, const kernels::AttentionPlanShape& attention,
           const ForwardBatch& batch, std::span<const CudaAdapters::Table> tables);

  struct Size {
    size_t table_bytes = 0;
    int64_t v_floats = 0;  // of the LoRA operator
  };
  // What no step of a rounded shape exceeds: of up to `max_rows` rows, at positions below
  // `max_positions`.
  static Size LargestRounded(const ModelSpec& spec, const SequencePages& pages, int64_t max_rows,
                             int64_t max_positions);

  const CudaStepShape& shape() const { return shape_; }
  const CudaStepLayout& layout() const { return layout_; }
  Size size() const { return {layout_.size_bytes, v_floats_}; }
  // What Write writes, in bytes of the table: the rest is for larger steps of the same shape.
  struct Piece {
    size_t offset = 0;
    size_t size_bytes = 0;
  };
  const std::vector<Piece>& pieces() const { return pieces_; }
  // `to` [layout().size_bytes] as it is to lie at `at` on the device.
  void Write(std::byte* to, const std::byte* at) const;

 private:
  void PlanAttention(const ModelSpec& spec, kernels::AttentionPlanShape shape);
  void PlanAdapters(const ModelSpec& spec, int num_multiprocessors);
  void PlanExperts();
  void PlanEmbedding(const ModelSpec& spec, int num_multiprocessors);
  void FindOwnEmbeddings();
  // Rounds the shape, with tables for all that it bounds; false if the step needs more.
  bool PlaceWithin(const ModelSpec& spec, int num_multiprocessors);
  // Of a table's parts, those that may be larger than what is written.
  struct PartBytes {
    std::array<size_t, kNumStepPlans> lora = {};
    size_t expert_lora = 0;
  };
  void Place(const PartBytes& bytes);
  // Returns where each sequence's page table will lie; that of its state lies behind it.
  std::vector<std::byte* const*> WritePages(std::byte* to, const std::byte* at) const;
  void WriteDelta(std::byte* to, const std::vector<std::byte* const*>& pages) const;

  const ForwardBatch& batch_;
  std::span<const CudaAdapters::Table> tables_;
  std::array<std::optional<kernels::AttentionPlan>, kMaxAttentionPlans> attention_;
  std::array<std::optional<kernels::LoraPlan>, kNumStepPlans> plans_;
  std::optional<kernels::ExpertLoraPlan> experts_;
  std::vector<const kernels::LoraDeviceMatrix*> own_embeddings_;  // [rows]; nothing if all are null
  CudaStepShape shape_;
  CudaStepLayout layout_;
  std::vector<Piece> pieces_;
  int64_t v_floats_ = 0;
};

}  // namespace aril

#endif  // ARIL_MODEL_CUDA_STEP_H_
