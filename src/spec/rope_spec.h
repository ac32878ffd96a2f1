// Rotary position embedding settings of a config.json, old and new spellings.

#ifndef ARIL_SPEC_ROPE_SPEC_H_
#define ARIL_SPEC_ROPE_SPEC_H_

#include "base/json.h"
#include "base/status.h"
#include "spec/model_spec.h"

namespace aril::internal {

// Reads "rope_theta" with "rope_scaling" (transformers 4), or "rope_parameters" (transformers 5).
// Supported rope types: default, linear, llama3, over the whole head. `max_position_embeddings` is
// what a missing "original_max_position_embeddings" defaults to.
StatusOr<RopeSpec> ParseRopeSpec(const Json& config, int64_t max_position_embeddings);

// Gemma 3: of the layers that see all keys, and of those with a window. "rope_theta" and
// "rope_scaling" are of the former, "rope_local_base_freq" of the latter; or "rope_parameters" has
// an object for each.
struct TwoRopes {
  RopeSpec full;
  RopeSpec windowed;
};
StatusOr<TwoRopes> ParseTwoRopes(const Json& config, int64_t max_position_embeddings);

}  // namespace aril::internal

#endif  // ARIL_SPEC_ROPE_SPEC_H_
