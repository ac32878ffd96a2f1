// Which layers of a model have linear attention, and of what sizes (Qwen3.5).

#ifndef ARIL_SPEC_LINEAR_ATTENTION_H_
#define ARIL_SPEC_LINEAR_ATTENTION_H_

#include "base/json.h"
#include "base/status.h"
#include "spec/model_spec.h"

namespace aril::internal {

// Reads "layer_types", or "full_attention_interval", and "linear_…"; and what else sets Qwen3.5
// apart. The sizes must be read.
Status ReadQwen35(const Json& config, ModelSpec* spec);

}  // namespace aril::internal

#endif  // ARIL_SPEC_LINEAR_ATTENTION_H_
