// The matrices of FP8 among a checkpoint's tensors.

#ifndef ARIL_SPEC_FLOAT8_CHECKPOINT_H_
#define ARIL_SPEC_FLOAT8_CHECKPOINT_H_

#include <map>
#include <string>

#include "base/status.h"
#include "spec/quantized_spec.h"
#include "tensor/safetensors.h"

namespace aril {

using Float8Map = std::map<std::string, Float8View, std::less<>>;

// Takes what quantized modules consist of out of `tensors`, and gives them as matrices: of
// "a.weight", of dtype F8_E4M3, and "a.weight_scale_inv" or "a.weight_scale" one called "a.weight".
// Scales of inputs and of KV are taken and forgotten. InvalidArgument names the tensor that is
// missing, or has another shape or type.
StatusOr<Float8Map> TakeFloat8Matrices(const Float8Spec& spec, TensorMap* tensors);

}  // namespace aril

#endif  // ARIL_SPEC_FLOAT8_CHECKPOINT_H_
