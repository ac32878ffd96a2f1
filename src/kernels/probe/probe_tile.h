// What the per-instruction-set probes are. Plain structs only (see cpu/simd.h).

#ifndef ARIL_KERNELS_PROBE_PROBE_TILE_H_
#define ARIL_KERNELS_PROBE_PROBE_TILE_H_

#include <stdint.h>

namespace aril::kernels {

// Reads `bytes` bytes, a multiple of 1024, and returns something that depends on each.
using ReadFunction = uint32_t (*)(const void* data, int64_t bytes);

// A loop of `iterations` rounds of independent multiply-adds; returns something that depends on
// all.
struct ArithmeticLoop {
  float (*run)(int64_t iterations, float x);  // null: there is no instruction for it
  int64_t operations;                         // multiplications and additions of a round
};

}  // namespace aril::kernels

#endif  // ARIL_KERNELS_PROBE_PROBE_TILE_H_
