// The matrices of bytes among a checkpoint's tensors.

#ifndef ARIL_SPEC_INT8_CHECKPOINT_H_
#define ARIL_SPEC_INT8_CHECKPOINT_H_

#include <map>
#include <string>

#include "base/status.h"
#include "tensor/safetensors.h"

namespace aril {

using Int8Map = std::map<std::string, Int8View, std::less<>>;

// Takes what quantized modules consist of out of `tensors`, and gives them as matrices: of
// "a.weight" and "a.weight_scale" one called "a.weight". InvalidArgument names the tensor that is
// missing, or has another shape or type; Unimplemented the one that says that 0 is not 0.
StatusOr<Int8Map> TakeInt8Matrices(TensorMap* tensors);

}  // namespace aril

#endif  // ARIL_SPEC_INT8_CHECKPOINT_H_
