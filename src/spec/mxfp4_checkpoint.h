// What a layer's experts have in checkpoints of MXFP4, as gpt-oss is published, put together.

#ifndef ARIL_SPEC_MXFP4_CHECKPOINT_H_
#define ARIL_SPEC_MXFP4_CHECKPOINT_H_

#include "base/status.h"
#include "spec/codebook4_checkpoint.h"
#include "spec/model_spec.h"
#include "tensor/safetensors.h"

namespace aril {

// Takes the tensors of the experts that are quantized out of `tensors`, and returns each expert's
// matrices, by their names ("model.layers.0.mlp.experts.7.up_proj.weight"): views of the tensors'
// bytes. InvalidArgument names the tensor that is missing or has another dtype or shape.
// Thread-safe. Sources: transformers, integrations/mxfp4.py; OCP Microscaling Formats (MX) 1.0.
StatusOr<Codebook4Map> TakeMxfp4Matrices(const ModelSpec& spec, TensorMap* tensors);

}  // namespace aril

#endif  // ARIL_SPEC_MXFP4_CHECKPOINT_H_
