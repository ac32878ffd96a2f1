// What the per-instruction-set activation code is called with. Plain structs only (see cpu/simd.h).

#ifndef ARIL_KERNELS_ACTIVATION_ACTIVATION_TILE_H_
#define ARIL_KERNELS_ACTIVATION_ACTIVATION_TILE_H_

#include <stdint.h>

namespace aril::kernels {

enum class Activation : uint8_t {
  kSilu,      // x / (1 + e^-x)
  kGeluTanh,  // x / 2 · (1 + tanh(√(2/π) · (x + 0.044715 x³))) (Hendrycks and Gimpel, 2016)
  // x / (1 + e^(-1.702 x)), and by (1 + up) it is multiplied; neither of gate and up is more than
  // 7, nor up less than -7 (gpt-oss; transformers' GptOssExperts).
  kClampedSwiglu,
};
inline constexpr float kSwigluAlpha = 1.702f;
inline constexpr float kSwigluLimit = 7.0f;

struct GluRow {
  Activation f;
  const float* gate;  // [size]
  const float* up;    // [size]
  int64_t size;
  void* out;  // [size]
};

struct SoftcapRow {
  float cap;
  float* values;  // [size]
  int64_t size;
};

struct GateRow {
  const float* gate;  // [size]
  int64_t size;
  void* values;  // [size]
};

using GluRowFunction = void (*)(const GluRow&);
using SoftcapRowFunction = void (*)(const SoftcapRow&);
using GateRowFunction = void (*)(const GateRow&);

}  // namespace aril::kernels

#endif  // ARIL_KERNELS_ACTIVATION_ACTIVATION_TILE_H_
