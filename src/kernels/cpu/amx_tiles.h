// How AMX tiles are shaped here. Included by *_amx.cc only (see cpu/simd.h).

#ifndef ARIL_KERNELS_CPU_AMX_TILES_H_
#define ARIL_KERNELS_CPU_AMX_TILES_H_

#include <immintrin.h>
#include <stdint.h>

namespace aril::kernels::amx {

// How eight tiles of 64-byte rows are configured: palette 1 (Intel SDM, volume 1, chapter 18).
struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
inline constexpr TileConfig kWholeTiles;

// Until _tile_release. `config` is a constant of the program: GCC takes the instruction to read the
// first 8 bytes only, and would leave out what is written to the others of a variable.
static inline __attribute__((always_inline)) void ConfigureTiles(
    const TileConfig& config = kWholeTiles) {
  _tile_loadconfig(&config);
}

}  // namespace aril::kernels::amx

#endif  // ARIL_KERNELS_CPU_AMX_TILES_H_
