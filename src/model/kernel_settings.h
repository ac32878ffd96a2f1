// What kernels are told of a model, the same by every backend.

#ifndef ARIL_MODEL_KERNEL_SETTINGS_H_
#define ARIL_MODEL_KERNEL_SETTINGS_H_

#include "kernels/activation/activation_tile.h"
#include "kernels/gated_delta/delta_shape.h"
#include "spec/model_spec.h"
#include "tensor/dtype.h"

namespace aril {

kernels::Activation ActivationOf(const ModelSpec& spec);

// The residual stream is kept divided by residual_multiplier (Granite): what layers add to it is
// then added as it is, and norms, whose result a factor before them does not change, have another
// eps.

// By what embeddings are multiplied before they are the stream. Gemma's is a number of the model's
// dtype, as in transformers.
float EmbeddingScale(const ModelSpec& spec, DType dtype);
// Of the norms of the stream; norms of what is added to it (Gemma's) have the same one, since no
// model has those and the multiplier.
float NormEps(const ModelSpec& spec);

kernels::DeltaShape DeltaShapeOf(const LinearAttentionSpec& linear);

// Of attention's scores; and their cap, 0 for none.
float ScoreScale(const ModelSpec& spec);
float ScoreSoftcap(const ModelSpec& spec);

}  // namespace aril

#endif  // ARIL_MODEL_KERNEL_SETTINGS_H_
