// The rotary frequencies that a config.json describes.

#ifndef ARIL_MODEL_ROPE_FREQUENCIES_H_
#define ARIL_MODEL_ROPE_FREQUENCIES_H_

#include <cstdint>
#include <vector>

#include "spec/model_spec.h"

namespace aril {

// [head_dim / 2] radians per position: theta^(-2i / head_dim), scaled as `rope` says. Source:
// transformers, modeling_rope_utils (default, linear, llama3).
std::vector<double> RopeInverseFrequencies(const RopeSpec& rope, int64_t head_dim);

}  // namespace aril

#endif  // ARIL_MODEL_ROPE_FREQUENCIES_H_
