// What an adapter has outside of the layers: of the embedding and of lm_head.

#ifndef ARIL_ADAPTERS_OUTER_READER_H_
#define ARIL_ADAPTERS_OUTER_READER_H_

#include <cstdint>

#include "adapters/adapter_tensors.h"
#include "base/status.h"
#include "spec/lora_spec.h"
#include "spec/model_spec.h"
#include "tensor/safetensors.h"

namespace aril {

// How many tokens the model had that an adapter was trained with: those of `base`, unless the file
// has an embedding or lm_head of another vocabulary (transformers, resize_token_embeddings). An
// error for one that is not near the base model's.
StatusOr<int64_t> FindVocabSize(const TensorMap& tensors, const ModuleNaming& naming,
                                const ModelSpec& base);

// `base`: the model, with the adapter's vocabulary. `base_vocab`: its own. Changes `spec`, which is
// the tensors', to what was found: matrices and rows of the adapter's own.
StatusOr<OuterTensors> ReadOuter(AdapterTensors& tensors, const ModelSpec& base, int64_t base_vocab,
                                 LoraSpec* spec);

}  // namespace aril

#endif  // ARIL_ADAPTERS_OUTER_READER_H_
