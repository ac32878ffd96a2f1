// The matrices of four-bit codes, and what these stand for, among a checkpoint's tensors.

#ifndef ARIL_SPEC_CODEBOOK4_CHECKPOINT_H_
#define ARIL_SPEC_CODEBOOK4_CHECKPOINT_H_

#include <map>
#include <string>

#include "base/status.h"
#include "tensor/codebook4_view.h"
#include "tensor/safetensors.h"

namespace aril {

using Codebook4Map = std::map<std::string, Codebook4View, std::less<>>;

// Takes what quantized modules consist of out of `tensors`, and gives them as matrices: of
// "a.weight", "a.weight.absmax", "a.weight.quant_map", "a.weight.quant_state.bitsandbytes__nf4" (or
// "…fp4") and, where scales are bytes, "a.weight.nested_absmax" and "a.weight.nested_quant_map" one
// called "a.weight". InvalidArgument names the tensor that is missing, has another shape or type,
// or a state that cannot be read.
StatusOr<Codebook4Map> TakeCodebook4Matrices(TensorMap* tensors);

}  // namespace aril

#endif  // ARIL_SPEC_CODEBOOK4_CHECKPOINT_H_
