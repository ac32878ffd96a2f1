// The rotary embedding that a config.json describes.

#ifndef ARIL_MODEL_ROPE_FREQUENCIES_H_
#define ARIL_MODEL_ROPE_FREQUENCIES_H_

#include <cstdint>
#include <vector>

#include "kernels/rope/rope.h"
#include "spec/model_spec.h"

namespace aril {

// [pairs] radians per position: theta^(-i / pairs), scaled as `rope` says. There are head_dim / 2,
// or fewer where LongRoPE rotates a part of the head. Source: transformers, modeling_rope_utils
// (default, linear, llama3, yarn, longrope's short factors).
std::vector<double> RopeInverseFrequencies(const RopeSpec& rope, int64_t head_dim);

kernels::RopeTable MakeRopeTable(const RopeSpec& rope, int64_t head_dim, int64_t max_positions);

}  // namespace aril

#endif  // ARIL_MODEL_ROPE_FREQUENCIES_H_
