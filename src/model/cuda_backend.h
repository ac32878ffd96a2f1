// A model on a GPU.
//
// Everything is launched into the device's one stream, and nothing is waited for but in Logits and
// Wait, so that a step's launches stand ready when the one before it ends. What a step's kernels
// read about its rows (tokens, pages, plans of the LoRA operator) is one table, which Begin copies
// from memory of the host that the next step leaves alone. Small steps, decodes most of all, have
// rounded shapes (model/cuda_step.h), and a graph each (model/cuda_graphs.h). Logits are computed
// without a graph, and have a table of their own (model/cuda_head.h).

#ifndef ARIL_MODEL_CUDA_BACKEND_H_
#define ARIL_MODEL_CUDA_BACKEND_H_

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "kernels/cuda/cuda_device.h"
#include "kernels/gemm/gemm_cuda.h"
#include "model/backend.h"
#include "model/cuda_adapters.h"
#include "model/cuda_experts.h"
#include "model/cuda_graphs.h"
#include "model/cuda_head.h"
#include "model/cuda_step.h"
#include "model/cuda_step_memory.h"
#include "model/cuda_weights.h"
#include "spec/model_spec.h"

namespace aril {

class CudaBackend final : public Backend {
 public:
  // What `spec` asks for and this backend has not: InvalidArgument, naming it.
  static Status Supports(const ModelSpec& spec, const kernels::KvLayout& layout);

  // What a backend takes beside its weights, but for what grows with use: graphs, the tables of
  // adapters (model/cuda_adapters.h), and of steps that are not rounded.
  static int64_t ActivationBytes(const ModelSpec& spec, const kernels::KvLayout& layout,
                                 int64_t max_rows, int64_t max_positions);

  // Rows of a step: at most `max_rows`; positions: below `max_positions`. Tries the algorithms of
  // products, which takes seconds for a large model. ResourceExhausted if the device, which must
  // outlive the backend, has no room for what rows and positions need.
  static StatusOr<std::unique_ptr<CudaBackend>> Create(kernels::CudaDevice& device,
                                                       std::unique_ptr<kernels::CudaGemm> gemm,
                                                       const ModelSpec& spec,
                                                       const kernels::KvLayout& layout,
                                                       DeviceWeights weights, int64_t max_rows,
                                                       int64_t max_positions);

  const Checkpoint& checkpoint() const override { return weights_.checkpoint; }
  Status Begin(const ForwardBatch& batch) override;
  Status Run(const std::function<Status()>& operators) override;
  Status Embed() override;
  Status AddNorm(int64_t layer, LayerNorm norm) override;
  Status Project(int64_t layer, ProjectionGroup group) override;
  Status RopeAppend(int64_t layer) override;
  Status Attention(int64_t layer) override;
  Status GateHeads() override;
  Status GatedDelta(int64_t layer) override;
  Status Glu() override;
  Status Experts(int64_t layer) override;
  StatusOr<MatrixView<const float>> Logits(std::span<const int32_t> rows) override;
  StatusOr<MatrixView<const float>> HiddenStates(std::span<const int32_t> rows) override;
  bool chooses_tokens() const override { return true; }
  Status Choose(std::span<const int32_t> rows, std::span<const kernels::SampleRow> how) override;
  Status End() override;
  StatusOr<std::span<const int32_t>> Wait() override;

  int64_t num_replays() const { return graphs_.num_replays(); }

 private:
  CudaBackend(kernels::CudaDevice& device, std::unique_ptr<kernels::CudaGemm> gemm,
              const ModelSpec& spec, const kernels::KvLayout& layout, DeviceWeights weights,
              int64_t max_rows);
  Status AllocateActivations(int64_t max_positions);
  // Lets the algorithms of products be chosen, on the buffers of activations.
  Status PrepareProducts();
  Status TryPlaceOf(ProjectionGroup group, int64_t rows);
  Status FillInput();
  // Of the input, into the output; of the input, into the logits.
  kernels::CudaGemmArgs ProductOf(int64_t layer, ProjectionGroup group, int64_t rows) const;
  kernels::CudaGemmArgs RouterProduct(int64_t layer, int64_t rows) const;
  kernels::CudaGemmArgs LogitProduct(int64_t rows, int64_t width) const;
  kernels::AttentionPlanShape AttentionShape() const;
  // Of rows of the hidden size, all but the weights.
  kernels::AddRmsNormArgs NormArgs(const kernels::DeviceBuffer& residual,
                                   const kernels::DeviceBuffer& add, int32_t rows);
  struct Rope {
    kernels::DeviceBuffer cos, sin;  // fp32 [max_positions, num_pairs]
    int32_t num_pairs = 0;
  };
  StatusOr<Rope> MakeRope(const RopeSpec& spec, int64_t max_positions);

  // Of each segment.
  StatusOr<std::vector<CudaAdapters::Table>> FindAdapters(std::span<const BatchSegment> segments);
  void FindHeadSegments(std::span<const BatchSegment> segments,
                        std::span<const CudaAdapters::Table> tables);
  // What the host keeps of a step until it has been waited for.
  struct HostStep {
    std::unique_ptr<kernels::CudaEvent> ended;
    kernels::PinnedBuffer chosen;                    // int32 [max_rows]: what Wait returns
    size_t num_chosen = 0;                           // so far
    std::vector<kernels::PinnedBuffer> head_tables;  // of each call of Logits and Choose
    size_t num_heads = 0;                            // of these calls, so far
  };
  HostStep& host_step() { return host_steps_[slot_]; }
  // Chooses the memory of a step, which is as large as that needs it then.
  Status ReserveForStep(const CudaStep& step);
  // Puts what was chosen in the step before in the place of tokens that stand for it.
  Status TakeChosen(std::span<const int32_t> tokens);
  template <typename T>
  const T* InTable(size_t offset) const {
    return reinterpret_cast<const T*>(memory_->table.data() + offset);
  }

  // A product with `w`, of whichever kind that is.
  Status RunProduct(const DeviceMatrix& w, const kernels::CudaGemmArgs& product);
  // The product, and what a plan's adapters add to it.
  Status Multiply(const DeviceMatrix& w, const kernels::CudaGemmArgs& product, int64_t layer,
                  size_t plan, std::span<const kernels::LoraExpandTarget> targets);
  Status AddAdaptersToEmbedding();
  CudaHead PlanHead(std::span<const int32_t> rows, std::span<const kernels::SampleRow> how) const;
  // Leaves the last norm of the head's rows at `out`, [rows, hidden] in `dtype`, and its table.
  Status FinalNorm(const CudaHead& head, DType dtype, std::byte* out);
  // Leaves the logits on the device, and its table.
  Status ComputeLogits(const CudaHead& head);
  Status UploadHead(const CudaHead& head);
  Status AddAdaptersToLogits(const CudaHead& head, int32_t rows);
  const DeviceMatrix& lm_head() const {
    return weights_.lm_head.n == 0 ? weights_.embedding : weights_.lm_head;
  }
  const DeviceWeights::Layer& WeightsOf(int64_t layer) const {
    return weights_.layers[static_cast<size_t>(layer)];
  }

  kernels::CudaDevice& device_;
  std::unique_ptr<kernels::CudaGemm> gemm_;
  ModelSpec spec_;
  kernels::KvLayout layout_;
  DeviceWeights weights_;
  CudaAdapters adapters_;
  int64_t max_rows_;

  // Of the last Begin.
  int32_t batch_rows_ = 0;
  CudaStepShape shape_;
  CudaStepLayout step_;
  CudaStepMemory* memory_ = nullptr;
  std::vector<CudaHeadSegment> head_segments_;

  CudaExperts experts_;
  CudaGraphs graphs_;
  std::array<HostStep, kMaxStepsUnderWay> host_steps_;
  size_t slot_ = 0;                 // of these, that of the last Begin
  int num_under_way_ = 0;           // steps that have begun and not been waited for
  CudaStepMemory rounded_;          // for any rounded shape: captured graphs have its addresses
  CudaStepMemory others_;           // as the largest step so far needed it
  Rope rope_, other_rope_;          // the latter where some layers have another one
  kernels::DeviceBuffer residual_;  // fp32 [max_rows, hidden]
  kernels::DeviceBuffer output_;    // fp32 [max_rows, WidestOutput(spec)]
  kernels::DeviceBuffer input_, query_;   // [max_rows, widest input of a projection] in the dtype
  kernels::DeviceBuffer partials_;        // fp32, of attention
  kernels::DeviceBuffer delta_scratch_;   // fp32, of linear attention
  kernels::DeviceBuffer chosen_;          // int32 [max_rows], of the last step that chose any
  kernels::DeviceBuffer head_table_;      // begins with int32 [kMaxLogitRows]: rows
  kernels::DeviceBuffer head_v_;          // fp32, of adapters of lm_head
  kernels::DeviceBuffer logit_residual_;  // fp32 [kMaxLogitRows, hidden]
  kernels::DeviceBuffer logit_output_;    // likewise
  kernels::DeviceBuffer hidden_states_;   // likewise
  kernels::DeviceBuffer logits_;          // fp32 [kMaxLogitRows, a head's width]
  kernels::PinnedBuffer host_logits_, host_hidden_states_;
};

}  // namespace aril

#endif  // ARIL_MODEL_CUDA_BACKEND_H_
