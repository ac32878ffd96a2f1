// The forward pass of a decoder-only transformer of the Llama family, written once for all
// architectures of spec/model_spec.h and any mix of adapters.
//
// Precision: the residual stream, projections' outputs, softmax and norms are fp32; what enters a
// matrix product, and K and V, are rounded to the model's dtype. With dtype F32 nothing is rounded.

#ifndef ARIL_MODEL_MODEL_H_
#define ARIL_MODEL_MODEL_H_

#include <cstdint>
#include <span>
#include <vector>

#include "adapters/resident_adapter.h"
#include "base/status.h"
#include "kernels/attention/attention.h"
#include "kernels/cpu/context.h"
#include "kernels/lora/lora.h"
#include "kernels/matrix.h"
#include "kernels/rope/rope.h"
#include "model/weights.h"
#include "spec/model_spec.h"
#include "tensor/buffer.h"

namespace aril {

// Consecutive rows that use one adapter, weighted. Rows of no segment use the base model alone;
// rows of several, all of them, in their order.
struct BatchSegment {
  int32_t first_row = 0;
  int32_t num_rows = 0;
  const ResidentAdapter* adapter = nullptr;
  float weight = 1;
};

// The rows of one step.
struct ForwardBatch {
  std::span<const int32_t> tokens;                        // [num_rows], inside the vocabulary
  std::span<const kernels::AttentionSequence> sequences;  // cover all rows
  std::span<const BatchSegment> segments;
};

// Holds the weights and the activations of one step. Used by one thread at a time.
class Model {
 public:
  // Rows of a step: at most `max_rows`; positions: below `max_positions`. The context must outlive
  // the model.
  Model(const ModelSpec& spec, const kernels::KvLayout& layout, ModelWeights weights,
        int64_t max_rows, int64_t max_positions, kernels::CpuContext& context);

  const ModelSpec& spec() const { return spec_; }
  const kernels::KvLayout& layout() const { return layout_; }
  // The files that the weights came from.
  const Checkpoint& checkpoint() const { return weights_.checkpoint; }

  // Runs all layers: appends K and V of every row to the sequences' pages and leaves the rows'
  // hidden states for Logits.
  void Forward(const ForwardBatch& batch);

  // logits [rows.size(), vocab_size] of rows of the last Forward, in ascending order, at most
  // kMaxLogitRows. The adapters of its batch must still be there. The view is valid until the next
  // call.
  MatrixView<const float> Logits(std::span<const int32_t> rows);

  // Bounds the logits in memory: 64 rows of a 128 k vocabulary are 32 MiB.
  static constexpr int64_t kMaxLogitRows = 64;

 private:
  void Embed(const ForwardBatch& batch);
  // An adapter's own embedding, and what it adds to it.
  void EmbedWithAdapter(std::span<const int32_t> tokens, const BatchSegment& segment);
  // Likewise of lm_head; x [rows.size(), hidden] is its input.
  void AddAdaptersToLogits(std::span<const int32_t> rows, const kernels::ConstMatrix& x,
                           MatrixView<float> logits);
  void RunLayer(int64_t layer, const ForwardBatch& batch);
  // y [rows, …] = x · Wᵀ + bias, plus the adapters' parts; the projections lie side by side in W.
  void Project(int64_t layer, const ForwardBatch& batch, const kernels::ConstMatrix& x,
               const kernels::PackedMatrix& w, const std::vector<float>& bias,
               std::span<const Projection> projections);
  void AddAdapters(int64_t layer, const ForwardBatch& batch, const kernels::ConstMatrix& x,
                   const std::vector<float>& bias, std::span<const Projection> projections);

  MatrixView<float> Residual(int64_t rows) const;
  MatrixView<float> Output(int64_t rows, int64_t cols) const;
  kernels::Matrix Activation(const Buffer& buffer, int64_t rows, int64_t cols) const;

  ModelSpec spec_;
  kernels::KvLayout layout_;
  ModelWeights weights_;
  kernels::CpuContext& context_;
  kernels::RopeTable rope_;
  int64_t max_rows_;
  int64_t rows_ = 0;  // of the last Forward

  Buffer residual_;        // [max_rows, hidden] fp32
  Buffer output_;          // [max_rows, widest projection group] fp32
  Buffer input_, query_;   // [max_rows, widest input of a projection] in the dtype
  Buffer logit_residual_;  // [kMaxLogitRows, hidden] fp32
  Buffer logits_;          // [kMaxLogitRows, vocab] fp32
  std::vector<BatchSegment> head_segments_;  // of the last Forward: those that change lm_head
  std::vector<kernels::LoraSegment> lora_segments_;
  std::vector<float> lora_intermediate_;
};

}  // namespace aril

#endif  // ARIL_MODEL_MODEL_H_
