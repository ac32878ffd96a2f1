// How AMX tiles are shaped here. Included by *_amx.cc only (see cpu/simd.h).

#ifndef ARIL_KERNELS_CPU_AMX_TILES_H_
#define ARIL_KERNELS_CPU_AMX_TILES_H_

#include <immintrin.h>
#include <stdint.h>

namespace aril::kernels::amx {

// All eight tiles of 16 rows × 64 bytes: palette 1 (Intel SDM, volume 1, chapter 18). Until
// _tile_release.
static inline __attribute__((always_inline)) void ConfigureTiles() {
  struct alignas(64) TileConfig {
    uint8_t palette = 1;
    uint8_t start_row = 0;
    uint8_t reserved[14] = {};
    uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
  };
  static const TileConfig config;
  _tile_loadconfig(&config);
}

}  // namespace aril::kernels::amx

#endif  // ARIL_KERNELS_CPU_AMX_TILES_H_
