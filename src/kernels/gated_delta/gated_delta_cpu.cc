// A matrix's columns do not know of each other: of a head, kDeltaColumns at a time stay in the
// first cache over all rows of a sequence. Sums over keys run in two chains, of even and of odd
// ones, which are then added.

#include "kernels/gated_delta/gated_delta_cpu.h"

#include "kernels/cpu/simd.h"

namespace aril::kernels::ARIL_ISA {
namespace {

constexpr int64_t kVectors = kDeltaColumns / kLanes;
constexpr float kNormEps = 1e-6f;  // of q and k; transformers has no field for it

ARIL_INLINE Vf Convolve(const DeltaConvRow& row, int64_t channel, int64_t n) {
  Vf sum = Zero();
  for (int64_t i = 0; i < row.conv_size; ++i) {
    if (row.inputs[i] == nullptr) continue;
    const float* input = row.inputs[i] + channel;
    const float* weight = row.conv + i * row.num_channels + channel;
    sum = n == kLanes ? Fma(Load(input), Load(weight), sum)
                      : Fma(LoadPartial(input, n), LoadPartial(weight, n), sum);
  }
  return Silu(sum);
}

// x = x / sqrt(Σ x² + eps) · scale.
void NormalizeHead(float* x, int64_t size, float scale) {
  Vf squares = Zero();
  int64_t i = 0;
  for (; i + kLanes <= size; i += kLanes) {
    const Vf v = Load(x + i);
    squares = Fma(v, v, squares);
  }
  if (i < size) {
    const Vf v = LoadPartial(x + i, size - i);
    squares = Fma(v, v, squares);
  }
  const float inverse = 1.0f / __builtin_sqrtf(Sum(squares) + kNormEps);
  for (i = 0; i < size; ++i) x[i] = x[i] * inverse * scale;
}

// The columns of a head's matrix at hand: [key_dim, kDeltaColumns].
struct Block {
  alignas(64) float s[kMaxDeltaKeyDim * kDeltaColumns];
};

void Read(const DeltaTile& tile, Block* block) {
  for (int64_t i = 0; i < tile.key_dim; ++i) {
    float* to = block->s + i * kDeltaColumns;
    if (tile.is_new || tile.num_columns < kDeltaColumns) {
      __builtin_memset(to, 0, kDeltaColumns * sizeof(float));
    }
    if (!tile.is_new) {
      __builtin_memcpy(to, tile.state[i], (size_t)tile.num_columns * sizeof(float));
    }
  }
}

void Write(const DeltaTile& tile, const Block& block) {
  for (int64_t i = 0; i < tile.key_dim; ++i) {
    __builtin_memcpy(tile.state[i], block.s + i * kDeltaColumns,
                     (size_t)tile.num_columns * sizeof(float));
  }
}

// sums[c] = Σ x[i] · s[i][c].
ARIL_INLINE void DotColumns(const float* s, const float* x, int64_t size, Vf sums[kVectors]) {
  Vf odd[kVectors];
#pragma GCC unroll 8
  for (int64_t v = 0; v < kVectors; ++v) sums[v] = odd[v] = Zero();
  int64_t i = 0;
  for (; i + 2 <= size; i += 2) {
    const float* row = s + i * kDeltaColumns;
    const Vf even_x = Set(x[i]), odd_x = Set(x[i + 1]);
#pragma GCC unroll 8
    for (int64_t v = 0; v < kVectors; ++v) {
      sums[v] = Fma(even_x, Load(row + v * kLanes), sums[v]);
      odd[v] = Fma(odd_x, Load(row + kDeltaColumns + v * kLanes), odd[v]);
    }
  }
  if (i < size) {
    const Vf last = Set(x[i]);
#pragma GCC unroll 8
    for (int64_t v = 0; v < kVectors; ++v) {
      sums[v] = Fma(last, Load(s + i * kDeltaColumns + v * kLanes), sums[v]);
    }
  }
#pragma GCC unroll 8
  for (int64_t v = 0; v < kVectors; ++v) sums[v] = sums[v] + odd[v];
}

// s = decay · s + k ⊗ delta.
ARIL_INLINE void Update(float* s, const float* k, int64_t size, float decay,
                        const Vf delta[kVectors]) {
  const Vf kept = Set(decay);
  for (int64_t i = 0; i < size; ++i) {
    float* row = s + i * kDeltaColumns;
    const Vf key = Set(k[i]);
#pragma GCC unroll 8
    for (int64_t v = 0; v < kVectors; ++v) {
      Store(row + v * kLanes, Fma(key, delta[v], kept * Load(row + v * kLanes)));
    }
  }
}

// kDeltaColumns of the row's v, filled up with zeros.
ARIL_INLINE void LoadColumns(const float* x, int64_t num_columns, Vf out[kVectors]) {
  alignas(64) float values[kDeltaColumns] = {};
  __builtin_memcpy(values, x, (size_t)num_columns * sizeof(float));
#pragma GCC unroll 8
  for (int64_t v = 0; v < kVectors; ++v) out[v] = Load(values + v * kLanes);
}

void Advance(const DeltaTile& tile, int64_t row, Block* block) {
  const float* k = tile.k + row * tile.stride;
  const float decay = tile.decay[row * tile.gate_stride];
  const Vf beta = Set(tile.beta[row * tile.gate_stride]);
  Vf seen[kVectors], delta[kVectors];
  DotColumns(block->s, k, tile.key_dim, seen);
  LoadColumns(tile.v + row * tile.stride, tile.num_columns, delta);
#pragma GCC unroll 8
  for (int64_t v = 0; v < kVectors; ++v) delta[v] = (delta[v] - seen[v] * decay) * beta;
  Update(block->s, k, tile.key_dim, decay, delta);
}

template <typename Element>
ARIL_INLINE void NormRow(const DeltaNormRow& row) {
  Vf squares = Zero();
  int64_t i = 0;
  for (; i + kLanes <= row.size; i += kLanes) {
    const Vf v = Load(row.x + i);
    squares = Fma(v, v, squares);
  }
  if (i < row.size) {
    const Vf v = LoadPartial(row.x + i, row.size - i);
    squares = Fma(v, v, squares);
  }
  const float mean = Sum(squares) / (float)row.size;
  const Vf scale = Set(1.0f / __builtin_sqrtf(mean + row.eps));
  Element* out = static_cast<Element*>(row.out);
  for (i = 0; i + kLanes <= row.size; i += kLanes) {
    Store(out + i, Load(row.x + i) * scale * Load(row.weight + i) * Silu(Load(row.z + i)));
  }
  if (const int64_t n = row.size - i; n > 0) {
    const Vf normed = LoadPartial(row.x + i, n) * scale * LoadPartial(row.weight + i, n);
    StorePartial(out + i, normed * Silu(LoadPartial(row.z + i, n)), n);
  }
}

}  // namespace

void DeltaConv(const DeltaConvRow& row) {
  int64_t c = 0;
  for (; c + kLanes <= row.num_channels; c += kLanes) Store(row.out + c, Convolve(row, c, kLanes));
  if (const int64_t n = row.num_channels - c; n > 0)
    StorePartial(row.out + c, Convolve(row, c, n), n);
  for (int64_t head = 0; head < 2 * row.num_key_heads; ++head) {
    NormalizeHead(row.out + head * row.key_dim, row.key_dim,
                  head < row.num_key_heads ? row.query_scale : 1.0f);
  }
}

void DeltaScan(const DeltaTile& tile) {
  Block block;
  Read(tile, &block);
  for (int64_t row = 0; row < tile.num_rows; ++row) {
    if (!tile.repeats) Advance(tile, row, &block);
    Vf sums[kVectors];
    DotColumns(block.s, tile.q + row * tile.stride, tile.key_dim, sums);
    alignas(64) float values[kDeltaColumns];
#pragma GCC unroll 8
    for (int64_t v = 0; v < kVectors; ++v) Store(values + v * kLanes, sums[v]);
    __builtin_memcpy(tile.out + row * tile.out_stride, values,
                     (size_t)tile.num_columns * sizeof(float));
  }
  if (!tile.repeats) Write(tile, block);
}

void DeltaNormRowF32(const DeltaNormRow& row) { NormRow<float>(row); }
void DeltaNormRowBF16(const DeltaNormRow& row) { NormRow<uint16_t>(row); }

}  // namespace aril::kernels::ARIL_ISA
