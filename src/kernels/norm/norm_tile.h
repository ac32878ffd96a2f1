// What the per-instruction-set norm code is called with. Plain structs only (see cpu/simd.h).

#ifndef ARIL_KERNELS_NORM_NORM_TILE_H_
#define ARIL_KERNELS_NORM_NORM_TILE_H_

#include <stdint.h>

namespace aril::kernels {

struct NormRow {
  float* residual;          // [size], updated when `add` is given
  const float* add;         // [size] or null
  const float* add_weight;  // [size], by which `add` is normed, or null
  const float* weight;      // [size]
  float eps;
  int64_t size;
  void* out;  // [size]
};

using NormRowFunction = void (*)(const NormRow&);

}  // namespace aril::kernels

#endif  // ARIL_KERNELS_NORM_NORM_TILE_H_
