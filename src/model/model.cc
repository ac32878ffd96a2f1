#include "model/model.h"

#include <utility>

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

Status Model::RunLayer(int64_t layer) {
  RETURN_IF_ERROR(backend_->AddNorm(layer, LayerNorm::kAttention));
  RETURN_IF_ERROR(backend_->Project(layer, ProjectionGroup::kQkv));
  RETURN_IF_ERROR(backend_->RopeAppend(layer));
  RETURN_IF_ERROR(backend_->Attention(layer));
  RETURN_IF_ERROR(backend_->Project(layer, ProjectionGroup::kO));
  RETURN_IF_ERROR(backend_->AddNorm(layer, LayerNorm::kMlp));
  if (spec_.experts) return backend_->Experts(layer);
  RETURN_IF_ERROR(backend_->Project(layer, ProjectionGroup::kGateUp));
  RETURN_IF_ERROR(backend_->Glu());
  return backend_->Project(layer, ProjectionGroup::kDown);
}

void ExitOnDeviceError(const Status& error) {
  ExitWithError(StrCat("the device cannot go on, and this process ends: ", error));
}

}  // namespace aril
