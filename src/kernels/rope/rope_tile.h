// What the per-instruction-set rotary embedding code is called with. Plain structs only (see
// cpu/simd.h).

#ifndef ARIL_KERNELS_ROPE_ROPE_TILE_H_
#define ARIL_KERNELS_ROPE_ROPE_TILE_H_

#include <stdint.h>

namespace aril::kernels {

// One head of one row: optional RMSNorm, then the rotation, then rounding.
struct RopeHead {
  const float* in;           // [head_dim]
  int64_t head_dim;          // even
  const float* norm_weight;  // [head_dim] or null
  float norm_eps;
  int64_t num_pairs;  // that are rotated, at most head_dim / 2 (rope.h: RopeTable)
  const float* cos;   // [num_pairs] or null: no rotation (values are only rounded)
  const float* sin;   // [num_pairs]
  void* out;          // [head_dim]
};

// The largest head_dim served (the kernels keep a head on the stack).
inline constexpr int64_t kMaxHeadDim = 256;

using RopeHeadFunction = void (*)(const RopeHead&);

}  // namespace aril::kernels

#endif  // ARIL_KERNELS_ROPE_ROPE_TILE_H_
