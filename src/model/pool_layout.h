// How large the pool's pages are for a model.

#ifndef ARIL_MODEL_POOL_LAYOUT_H_
#define ARIL_MODEL_POOL_LAYOUT_H_

#include "base/status.h"
#include "kernels/attention/kv_layout.h"
#include "spec/model_spec.h"

namespace aril {

// The KV layout of a model, with the number of tokens per page chosen so that
//  - a page is at most 15 % of a small adapter (rank 8 on q and v), which bounds what such an
//  adapter wastes;
//  - at most 16 tokens, which bounds what a sequence wastes;
//  - at least one row of any adapter's matrix, and of a state, fits (the rule that wins for tiny
//    models).
// Always a power of two. InvalidArgument if head_dim is more than the kernels serve.
StatusOr<kernels::KvLayout> ChooseKvLayout(const ModelSpec& spec, DType dtype);

}  // namespace aril

#endif  // ARIL_MODEL_POOL_LAYOUT_H_
