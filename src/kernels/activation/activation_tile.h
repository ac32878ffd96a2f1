// What the per-instruction-set activation code is called with. Plain structs only (see cpu/simd.h).

#ifndef ARIL_KERNELS_ACTIVATION_ACTIVATION_TILE_H_
#define ARIL_KERNELS_ACTIVATION_ACTIVATION_TILE_H_

#include <stdint.h>

namespace aril::kernels {

struct SiluMulRow {
  const float* gate;  // [size]
  const float* up;    // [size]
  int64_t size;
  void* out;  // [size]
};

using SiluMulRowFunction = void (*)(const SiluMulRow&);

}  // namespace aril::kernels

#endif  // ARIL_KERNELS_ACTIVATION_ACTIVATION_TILE_H_
