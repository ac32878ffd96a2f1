// A model on the CPU.

#ifndef ARIL_MODEL_CPU_BACKEND_H_
#define ARIL_MODEL_CPU_BACKEND_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kernels/cpu/context.h"
#include "kernels/experts/experts.h"
#include "kernels/lora/lora.h"
#include "kernels/norm/norm.h"
#include "kernels/rope/rope.h"
#include "model/backend.h"
#include "model/weights.h"
#include "spec/model_spec.h"
#include "tensor/buffer.h"

namespace aril {

// Fails in nothing.
class CpuBackend final : public Backend {
 public:
  // Rows of a step: at most `max_rows`; positions: below `max_positions`. The context must outlive
  // the backend.
  CpuBackend(const ModelSpec& spec, const kernels::KvLayout& layout, PackedWeights weights,
             int64_t max_rows, int64_t max_positions, kernels::CpuContext& context);

  const Checkpoint& checkpoint() const override { return weights_.checkpoint; }
  Status Begin(const ForwardBatch& batch) override;
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
  Status End() override { return OkStatus(); }
  StatusOr<std::span<const int32_t>> Wait() override { return std::span<const int32_t>(); }

 private:
  using Stack = std::vector<kernels::PackedMatrix>;
  using Layer = LayerWeights<kernels::PackedMatrix, Stack>;

  // An adapter's own embedding, and what it adds to it.
  void EmbedFromOwnTable(const BatchSegment& segment);
  void AddToEmbedding(const BatchSegment& segment);
  // Adds what experts [first, last) make of their rows of x, at most max_rows together.
  void AddExperts(int64_t layer, const kernels::ConstMatrix& x, int64_t first, int64_t last);
  // y += what the batch's adapters make of x at the sites from `first` on, one for each target.
  void AddAdapters(int64_t layer, Site first, std::span<const kernels::LoraTarget> targets,
                   const kernels::ConstMatrix& x, MatrixView<float> y);
  // Likewise at their experts' sites from `first` on, for the places of expert_segments_.
  void AddAdaptersToExperts(int64_t layer, Projection first,
                            std::span<const kernels::LoraTarget> targets,
                            const kernels::ConstMatrix& x, MatrixView<float> y);
  // Finds expert_segments_ for experts [first, last), whose places are counted from the first
  // one's.
  void FindExpertSegments(int64_t layer, int64_t first, int64_t last);
  // y += the parts of lora_segments_.
  void ApplyLora(std::span<const kernels::LoraTarget> targets, const kernels::ConstMatrix& x,
                 MatrixView<float> y);
  // out [rows.size(), hidden] = the last norm of residual + output at `rows`.
  void FinalNorm(std::span<const int32_t> rows, const kernels::Matrix& out);
  // As AddAdapters, of lm_head; x [rows.size(), hidden] is its input. First come matrices in its
  // place, then what is added.
  void AddAdaptersToLogits(std::span<const int32_t> rows, const kernels::ConstMatrix& x,
                           MatrixView<float> logits);
  // Of some rows of logits, without targets.
  struct HeadSegment {
    kernels::LoraSegment lora;
    const OuterWeights* outer = nullptr;
  };
  void ReplaceLogits(const HeadSegment& segment, const kernels::ConstMatrix& x,
                     MatrixView<float> logits);
  // Of one vocabulary.
  void AddToLogits(std::span<const HeadSegment> segments, const kernels::ConstMatrix& x,
                   MatrixView<float> logits);

  kernels::RmsNormWeights NormsOf(int64_t layer, LayerNorm norm) const;
  const Layer& WeightsOf(int64_t layer) const {
    return weights_.layers[static_cast<size_t>(layer)];
  }
  const kernels::RopeTable& RopeOf(int64_t layer) const {
    return spec_.HasOtherRope(layer) ? *other_rope_ : rope_;
  }
  MatrixView<float> Residual() const;
  MatrixView<float> Output(int64_t cols) const;
  // Of a group.
  MatrixView<float> Output(ProjectionGroup group) const;
  kernels::Matrix Activation(const Buffer& buffer, int64_t rows, int64_t cols) const;

  ModelSpec spec_;
  kernels::KvLayout layout_;
  PackedWeights weights_;
  kernels::CpuContext& context_;
  float embedding_scale_;
  kernels::RopeTable rope_;
  std::optional<kernels::RopeTable> other_rope_;  // where some layers have another one
  int64_t max_rows_;
  ForwardBatch batch_;  // what it points to is there in a step only
  int64_t rows_ = 0;    // of the last Begin

  Buffer residual_;                       // [max_rows, hidden] fp32
  Buffer output_;                         // [max_rows, widest output of a product] fp32
  Buffer input_, query_;                  // [max_rows, widest input of a projection] in the dtype
  Buffer expert_output_;                  // as output_, of experts; nothing without them
  Buffer logit_residual_, logit_output_;  // [kMaxLogitRows, hidden] fp32
  Buffer hidden_states_;                  // likewise
  Buffer logits_;                         // [kMaxLogitRows, vocab and kMaxAddedTokens] fp32
  kernels::ExpertRows expert_rows_;       // of the layer at hand
  std::vector<kernels::GemmPart> expert_parts_;
  // Places of an expert that use one adapter, which changes it.
  struct ExpertSegment {
    int64_t expert = 0;
    int64_t first_place = 0;
    int64_t num_places = 0;
    const BatchSegment* of_batch = nullptr;
  };
  std::vector<ExpertSegment> expert_segments_;
  std::vector<BatchSegment> head_segments_;  // of the last Begin: those that change lm_head
  std::vector<kernels::LoraSegment> lora_segments_;
  std::vector<float> lora_intermediate_;
};

}  // namespace aril

#endif  // ARIL_MODEL_CPU_BACKEND_H_
