// What the per-instruction-set LoRA code is called with. Plain structs only (see cpu/simd.h).

#ifndef ARIL_KERNELS_LORA_LORA_TILE_H_
#define ARIL_KERNELS_LORA_LORA_TILE_H_

#include <stdint.h>

namespace aril::kernels {

// Rank rows handed to one call; their addresses are resolved from the runs beforehand.
inline constexpr int kLoraMaxTileRanks = 16;

// v[r, j] = x[r] · a[j] for rows r and up to kLoraMaxTileRanks rank rows a[j].
struct LoraShrinkTile {
  const void* x;  // row r starts at x + r * x_stride_bytes
  int64_t x_stride_bytes;
  int64_t rows;
  int64_t in;
  const void* a[kLoraMaxTileRanks];
  int32_t num_ranks;
  float* v;  // v[r * v_stride + j]
  int64_t v_stride;
};

// y[r, :] += Σ_j scale · v[r, j] · b[j, :], j in order, for up to kLoraMaxTileRanks rank rows b[j].
struct LoraExpandTile {
  const float* v;  // v[r * v_stride + j]
  int64_t v_stride;
  int64_t rows;
  const void* b[kLoraMaxTileRanks];
  const void* fetch[kLoraMaxTileRanks];  // asked for while b[j] is read; need not be readable
  int32_t num_ranks;
  float scale;
  float* y;  // row r starts at y + r * y_stride
  int64_t y_stride;
  int64_t cols;
};

// y[r, :] = bias + (gain[0] + gain[1]) ∘ (y[r, :] − bias)
struct LoraGainTile {
  const void* gain[2];
  const float* bias;  // or null: zeros
  int64_t rows;
  float* y;  // row r starts at y + r * y_stride
  int64_t y_stride;
  int64_t cols;
};

using LoraShrinkFunction = void (*)(const LoraShrinkTile&);
using LoraExpandFunction = void (*)(const LoraExpandTile&);
using LoraGainFunction = void (*)(const LoraGainTile&);

}  // namespace aril::kernels

#endif  // ARIL_KERNELS_LORA_LORA_TILE_H_
