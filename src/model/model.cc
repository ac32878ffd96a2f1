#include "model/model.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/log.h"
#include "base/strings.h"

namespace aril {

Model::Model(const ModelSpec& spec, const kernels::KvLayout& layout,
             std::unique_ptr<Backend> backend)
    : spec_(spec), layout_(layout), backend_(std::move(backend)) {}

Status Model::Forward(const ForwardBatch& batch) {
  RETURN_IF_ERROR(backend_->Begin(batch));
  return backend_->Run([this] { return RunLayers(); });
}

Status Model::RunLayers() {
  RETURN_IF_ERROR(backend_->Embed());
  for (int64_t layer = 0; layer < spec_.num_layers; ++layer) RETURN_IF_ERROR(RunLayer(layer));
  return OkStatus();
}

Status Model::RunAttention(int64_t layer) {
  RETURN_IF_ERROR(backend_->Project(layer, ProjectionGroup::kQkv));
  RETURN_IF_ERROR(backend_->RopeAppend(layer));
  RETURN_IF_ERROR(backend_->Attention(layer));
  if (spec_.gated_queries) RETURN_IF_ERROR(backend_->GateHeads());
  return backend_->Project(layer, ProjectionGroup::kO);
}

Status Model::RunLinearAttention(int64_t layer) {
  RETURN_IF_ERROR(backend_->Project(layer, ProjectionGroup::kDeltaIn));
  RETURN_IF_ERROR(backend_->Project(layer, ProjectionGroup::kDeltaGates));
  RETURN_IF_ERROR(backend_->GatedDelta(layer));
  return backend_->Project(layer, ProjectionGroup::kDeltaOut);
}

Status Model::RunLayer(int64_t layer) {
  RETURN_IF_ERROR(backend_->AddNorm(layer, LayerNorm::kAttention));
  RETURN_IF_ERROR(spec_.IsLinear(layer) ? RunLinearAttention(layer) : RunAttention(layer));
  RETURN_IF_ERROR(backend_->AddNorm(layer, LayerNorm::kMlp));
  if (spec_.experts) return backend_->Experts(layer);
  RETURN_IF_ERROR(backend_->Project(layer, ProjectionGroup::kGateUp));
  RETURN_IF_ERROR(backend_->Glu());
  return backend_->Project(layer, ProjectionGroup::kDown);
}

void CheckTokens(const ForwardBatch& batch, int64_t vocab_size) {
  if (std::ranges::all_of(batch.tokens, [&](int32_t token) { return token < vocab_size; })) return;
  std::vector<int64_t> sizes(batch.tokens.size(), vocab_size);
  for (const BatchSegment& segment : batch.segments) {
    for (int32_t row = segment.first_row; row < segment.first_row + segment.num_rows; ++row) {
      int64_t& size = sizes[static_cast<size_t>(row)];
      size = std::max(size, segment.adapter->outer().vocab);
    }
  }
  for (size_t row = 0; row < sizes.size(); ++row) CHECK_LT(batch.tokens[row], sizes[row]);
}

int64_t WidestVocab(std::span<const BatchSegment> segments, int64_t vocab_size) {
  for (const BatchSegment& segment : segments) {
    vocab_size = std::max(vocab_size, segment.adapter->outer().vocab);
  }
  return vocab_size;
}

void ExitOnDeviceError(const Status& error) {
  ExitWithError(StrCat("the device cannot go on, and this process ends: ", error));
}

}  // namespace aril
