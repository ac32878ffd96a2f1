// Which layers of a model have a sliding window.

#ifndef ARIL_SPEC_LAYER_WINDOWS_H_
#define ARIL_SPEC_LAYER_WINDOWS_H_

#include "base/json.h"
#include "base/status.h"
#include "spec/family.h"
#include "spec/model_spec.h"

namespace aril::internal {

// Sets sliding_window and full_attention of a spec that has num_layers, from "sliding_window",
// "layer_types" and what else a family has.
Status ReadLayerWindows(const Json& config, const Family& family, ModelSpec* spec);

}  // namespace aril::internal

#endif  // ARIL_SPEC_LAYER_WINDOWS_H_
