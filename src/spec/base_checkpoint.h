// The weights of a base model by the names that the rest of Aril knows: those of Llama's modules.

#ifndef ARIL_SPEC_BASE_CHECKPOINT_H_
#define ARIL_SPEC_BASE_CHECKPOINT_H_

#include <string>

#include "base/status.h"
#include "spec/model_spec.h"
#include "tensor/safetensors.h"

namespace aril {

// Opens the files of `model_dir`, whose config.json is `spec`. Of a model that also sees, only the
// text model's tensors are there, called as those of a text model, and so are those of a decoder
// alone. Modules that are several projections are those, as views of parts. Experts are called as
// those of Qwen3-MoE, and each has matrices of its own. What is quantized is in quantized().
// InvalidArgument names the tensor that cannot be parted, or is there by two names; errors of
// TakeInt4Matrices, TakeInt8Matrices, TakeFloat8Matrices and TakeCodebook4Matrices are passed on.
StatusOr<Checkpoint> OpenBaseCheckpoint(const std::string& model_dir, const ModelSpec& spec);

}  // namespace aril

#endif  // ARIL_SPEC_BASE_CHECKPOINT_H_
