// Products of Intel AMX tiles that are never loaded nor stored: four independent sums.

#include <immintrin.h>

#include "kernels/cpu/amx_tiles.h"
#include "kernels/probe/probe_cpu.h"

namespace aril::kernels::amx {
namespace {

constexpr int64_t kProducts = 4;     // a round
constexpr int64_t kSums = 16 * 16;   // of a product
constexpr int64_t kBF16PerSum = 32;  // along K
constexpr int64_t kInt8PerSum = 64;

void ZeroTiles() {
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_zero(4);
  _tile_zero(5);
}

float RunBF16(int64_t iterations, float x) {
  ConfigureTiles();
  ZeroTiles();
  for (int64_t n = 0; n < iterations; ++n) {
    _tile_dpbf16ps(0, 4, 5);
    _tile_dpbf16ps(1, 4, 5);
    _tile_dpbf16ps(2, 4, 5);
    _tile_dpbf16ps(3, 4, 5);
  }
  _tile_release();
  return x;
}

float RunInt8(int64_t iterations, float x) {
  ConfigureTiles();
  ZeroTiles();
  for (int64_t n = 0; n < iterations; ++n) {
    _tile_dpbssd(0, 4, 5);
    _tile_dpbssd(1, 4, 5);
    _tile_dpbssd(2, 4, 5);
    _tile_dpbssd(3, 4, 5);
  }
  _tile_release();
  return x;
}

}  // namespace

extern const ArithmeticLoop kArithmeticBF16 = {RunBF16, kProducts* kSums* kBF16PerSum * 2};
extern const ArithmeticLoop kArithmeticInt8 = {RunInt8, kProducts* kSums* kInt8PerSum * 2};

}  // namespace aril::kernels::amx
