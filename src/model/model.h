// The forward pass of a decoder-only transformer (Llama, Qwen, Gemma, …), written once for all
// architectures of spec/model_spec.h, any mix of adapters, and every backend.
//
// Precision: the residual stream, projections' outputs, softmax and norms are fp32; what enters a
// matrix product, and K and V, are rounded to the model's dtype. With dtype F32 nothing is rounded.

#ifndef ARIL_MODEL_MODEL_H_
#define ARIL_MODEL_MODEL_H_

#include <cstdint>
#include <memory>
#include <span>

#include "base/status.h"
#include "kernels/attention/kv_layout.h"
#include "kernels/matrix.h"
#include "model/backend.h"
#include "spec/model_spec.h"

namespace aril {

// Used by one thread at a time.
class Model {
 public:
  // The backend has weights of `spec`, and pages of `layout`.
  Model(const ModelSpec& spec, const kernels::KvLayout& layout, std::unique_ptr<Backend> backend);

  const ModelSpec& spec() const { return spec_; }
  const kernels::KvLayout& layout() const { return layout_; }
  // The files that the weights came from.
  const Checkpoint& checkpoint() const { return backend_->checkpoint(); }

  // Runs all layers: appends K and V of every row to the sequences' pages, lets their states
  // go on, and leaves the rows' hidden states for Logits. Errors are a device's (model/backend.h).
  Status Forward(const ForwardBatch& batch);

  // logits [rows.size(), vocab_size] of rows of the last Forward, in ascending order, at most
  // kMaxLogitRows; of rows with adapters of another vocabulary, with as many columns that count as
  // that has. The adapters of its batch must still be there. The view is valid until the next call.
  StatusOr<MatrixView<const float>> Logits(std::span<const int32_t> rows) {
    return backend_->Logits(rows);
  }
  // Likewise their hidden states behind the last norm [rows.size(), hidden_size], divided by
  // spec().logits_scaling.
  StatusOr<MatrixView<const float>> HiddenStates(std::span<const int32_t> rows) {
    return backend_->HiddenStates(rows);
  }

  // As Logits, of rows whose tokens the device chooses; and the end of a step, and the wait for it
  // (model/backend.h): pages and adapters of its Forward may go then.
  bool chooses_tokens() const { return backend_->chooses_tokens(); }
  Status Choose(std::span<const int32_t> rows, std::span<const kernels::SampleRow> how) {
    return backend_->Choose(rows, how);
  }
  Status End() { return backend_->End(); }
  StatusOr<std::span<const int32_t>> Wait() { return backend_->Wait(); }

  static constexpr int64_t kMaxLogitRows = Backend::kMaxLogitRows;
  static constexpr int kMaxStepsUnderWay = Backend::kMaxStepsUnderWay;

 private:
  Status RunLayers();
  Status RunLayer(int64_t layer);
  Status RunAttention(int64_t layer);
  Status RunLinearAttention(int64_t layer);

  ModelSpec spec_;
  kernels::KvLayout layout_;
  std::unique_ptr<Backend> backend_;
};

}  // namespace aril

#endif  // ARIL_MODEL_MODEL_H_
