// Rotary position embedding settings of a config.json, old and new spellings.

#ifndef ARIL_SPEC_ROPE_SPEC_H_
#define ARIL_SPEC_ROPE_SPEC_H_

#include <optional>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "spec/model_spec.h"

namespace aril::internal {

// Reads "rope_theta" with "rope_scaling" (transformers 4), or "rope_parameters" (transformers 5).
// Supported rope types: default, linear, llama3, yarn. The spec's max_position_embeddings is what a
// missing "original_max_position_embeddings" defaults to.
struct RopeDefaults {
  double theta;  // for a missing "rope_theta"
  // For a missing "partial_rotary_factor"; absent: RoPE must be over the whole head.
  std::optional<double> part = std::nullopt;
};
StatusOr<RopeSpec> ParseRopeSpec(const Json& config, const ModelSpec& spec,
                                 const RopeDefaults& defaults);

// SmolLM3: [num_layers], those whose element in "no_rope_layers" is 0 (sic), or without that field
// every "no_rope_layer_interval"th.
StatusOr<std::vector<bool>> LayersWithoutRope(const Json& config, int64_t num_layers);

// Of Phi-3: rope types default and longrope, which has other names there, and may be over a part of
// the head.
StatusOr<RopeSpec> ParsePhi3Rope(const Json& config, const ModelSpec& spec);

// How many positions a model with such a RoPE has, whose config.json says so many. YaRN's files
// may say those before it; LongRoPE's frequencies are those of short sequences, since longer ones
// have others from the first position on: what was computed before a sequence grew so long would
// not hold any more.
int64_t PositionsOf(const RopeSpec& rope, int64_t max_position_embeddings);

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
