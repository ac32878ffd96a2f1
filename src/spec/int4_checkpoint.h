// The matrices of four bits among a checkpoint's tensors.

#ifndef ARIL_SPEC_INT4_CHECKPOINT_H_
#define ARIL_SPEC_INT4_CHECKPOINT_H_

#include <map>
#include <string>

#include "base/status.h"
#include "spec/quantized_spec.h"
#include "tensor/safetensors.h"

namespace aril {

using Int4Map = std::map<std::string, Int4View, std::less<>>;

// Takes what quantized modules consist of out of `tensors`, and gives them as matrices: of
// "a.qweight", "a.qzeros" and "a.scales" one called "a.weight". InvalidArgument names the tensor
// that is missing, has another shape or type, is there beside the matrix that it stands for, or
// puts inputs into groups that are not there; Unimplemented the one whose zero points programs take
// for different ones.
StatusOr<Int4Map> TakeInt4Matrices(const Int4Spec& spec, TensorMap* tensors);

}  // namespace aril

#endif  // ARIL_SPEC_INT4_CHECKPOINT_H_
