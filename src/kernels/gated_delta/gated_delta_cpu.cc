// A matrix's columns do not know of each other: of a head, kDeltaColumns at a time stay in the
// first cache over all rows of a sequence. Sums over keys run in two chains, of even and of odd
// ones, which are then added.

#include "kernels/gated_delta/gated_delta_cpu.h"

#include "kernels/cpu/simd.h"

namespace aril::kernels::ARIL_ISA {
namespace {

constexpr int64_t kVectors = kDeltaColumns / kLanes;
constexpr int64_t kTogether = 2;  // vectors whose sums stay in registers over a pass
static_assert(kVectors % kTogether == 0);
constexpr float kNormEps = 1e-6f;  // of q and k; transformers has no field for it

ARIL_INLINE Vf Convolve(const DeltaConvHead& head, int64_t channel, int64_t n) {
  Vf sum = Zero();
  for (int64_t i = 0; i < head.conv_size; ++i) {
    if (head.inputs[i] == nullptr) continue;
    const float* input = head.inputs[i] + channel;
    const float* weight = head.conv + i * head.num_channels + channel;
    sum = n == kLanes ? Fma(Load(input), Load(weight), sum)
                      : Fma(LoadPartial(input, n), LoadPartial(weight, n), sum);
  }
  return Silu(sum);
}

// x = x / sqrt(Σ x² + eps) · scale.
void NormalizeHead(float* x, int64_t size, float scale) {
  const float inverse = 1.0f / __builtin_sqrtf(SumOfSquares(x, size) + kNormEps);
  for (int64_t i = 0; i < size; ++i) x[i] = x[i] * inverse * scale;
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

// Up to kDeltaColumns, filled up with zeros.
ARIL_INLINE void LoadColumns(const float* x, int64_t num_columns, Vf out[kVectors]) {
  alignas(64) float filled[kDeltaColumns];
  if (num_columns < kDeltaColumns) {
    __builtin_memset(filled, 0, sizeof(filled));
    __builtin_memcpy(filled, x, (size_t)num_columns * sizeof(float));
    x = filled;
  }
#pragma GCC unroll 8
  for (int64_t v = 0; v < kVectors; ++v) out[v] = Load(x + v * kLanes);
}

ARIL_INLINE void StoreColumns(const Vf columns[kVectors], int64_t num_columns, float* to) {
  alignas(64) float filled[kDeltaColumns];
  float* whole = num_columns < kDeltaColumns ? filled : to;
#pragma GCC unroll 8
  for (int64_t v = 0; v < kVectors; ++v) Store(whole + v * kLanes, columns[v]);
  if (whole == filled) __builtin_memcpy(to, filled, (size_t)num_columns * sizeof(float));
}

// The columns of a head's matrix at hand: [key_dim, kDeltaColumns].
struct Block {
  alignas(64) float s[kMaxDeltaKeyDim * kDeltaColumns];
};

void Read(const DeltaTile& tile, Block* block) {
  for (int64_t i = 0; i < tile.key_dim; ++i) {
    Vf row[kVectors] = {};
    if (!tile.is_new) LoadColumns(tile.state[i], tile.num_columns, row);
    StoreColumns(row, kDeltaColumns, block->s + i * kDeltaColumns);
  }
}

void Write(const DeltaTile& tile, const Block& block) {
  for (int64_t i = 0; i < tile.key_dim; ++i) {
    Vf row[kVectors];
    LoadColumns(block.s + i * kDeltaColumns, kDeltaColumns, row);
    StoreColumns(row, tile.num_columns, tile.state[i]);
  }
}

// What a row does to the matrix, and what is asked of it then.
struct DeltaStep {
  const float* k;
  const float* q;
  const float* next_k;
  Vf decay;
};

// s = decay · s + k ⊗ delta, of a key.
ARIL_INLINE void UpdateKey(const DeltaStep& step, int64_t i, float* s, const Vf delta[kTogether],
                           Vf seen[kTogether], Vf out[kTogether]) {
  const Vf k = Set(step.k[i]), q = Set(step.q[i]), next_k = Set(step.next_k[i]);
#pragma GCC unroll 8
  for (int64_t v = 0; v < kTogether; ++v) {
    const Vf updated = Fma(k, delta[v], step.decay * Load(s + v * kLanes));
    Store(s + v * kLanes, updated);
    out[v] = Fma(q, updated, out[v]);
    seen[v] = Fma(next_k, updated, seen[v]);
  }
}

// Updates the matrix and sums out = q · s and seen = next_k · s as DotColumns does, in one pass.
ARIL_INLINE void Update(const DeltaStep& step, int64_t size, float* s, const Vf delta[kTogether],
                        Vf seen[kTogether], Vf out[kTogether]) {
  Vf odd_seen[kTogether], odd_out[kTogether];
#pragma GCC unroll 8
  for (int64_t v = 0; v < kTogether; ++v) {
    seen[v] = odd_seen[v] = out[v] = odd_out[v] = Zero();
  }
  int64_t i = 0;
  for (; i + 2 <= size; i += 2, s += 2 * kDeltaColumns) {
    UpdateKey(step, i, s, delta, seen, out);
    UpdateKey(step, i + 1, s + kDeltaColumns, delta, odd_seen, odd_out);
  }
  if (i < size) UpdateKey(step, i, s, delta, seen, out);
#pragma GCC unroll 8
  for (int64_t v = 0; v < kTogether; ++v) {
    seen[v] = seen[v] + odd_seen[v];
    out[v] = out[v] + odd_out[v];
  }
}

// seen: what the row's k sees of the matrix; then, what the next row's does.
void Advance(const DeltaTile& tile, int64_t row, Block* block, Vf seen[kVectors],
             Vf out[kVectors]) {
  const float* k = tile.k + row * tile.key_dim;
  const DeltaStep step = {.k = k,
                          .q = tile.q + row * tile.key_dim,
                          .next_k = row + 1 < tile.num_rows ? k + tile.key_dim : k,
                          .decay = Set(tile.decay[row * tile.gate_stride])};
  const Vf beta = Set(tile.beta[row * tile.gate_stride]);
  Vf delta[kVectors];
  LoadColumns(tile.v + row * tile.value_stride, tile.num_columns, delta);
#pragma GCC unroll 8
  for (int64_t v = 0; v < kVectors; ++v) delta[v] = (delta[v] - seen[v] * step.decay) * beta;
#pragma GCC unroll 8
  for (int64_t v = 0; v < kVectors; v += kTogether) {
    Update(step, tile.key_dim, block->s + v * kLanes, delta + v, seen + v, out + v);
  }
}

template <typename Element>
ARIL_INLINE void NormRow(const DeltaNormRow& row) {
  const float mean = SumOfSquares(row.x, row.size) / (float)row.size;
  const Vf scale = Set(1.0f / __builtin_sqrtf(mean + row.eps));
  Element* out = static_cast<Element*>(row.out);
  int64_t i = 0;
  for (; i + kLanes <= row.size; i += kLanes) {
    Store(out + i, Load(row.x + i) * scale * Load(row.weight + i) * Silu(Load(row.z + i)));
  }
  if (const int64_t n = row.size - i; n > 0) {
    const Vf normed = LoadPartial(row.x + i, n) * scale * LoadPartial(row.weight + i, n);
    StorePartial(out + i, normed * Silu(LoadPartial(row.z + i, n)), n);
  }
}

}  // namespace

void DeltaConv(const DeltaConvHead& head) {
  int64_t c = 0;
  for (; c + kLanes <= head.size; c += kLanes) {
    Store(head.out + c, Convolve(head, head.first_channel + c, kLanes));
  }
  if (const int64_t n = head.size - c; n > 0) {
    StorePartial(head.out + c, Convolve(head, head.first_channel + c, n), n);
  }
  if (head.is_normed) NormalizeHead(head.out, head.size, head.scale);
}

void DeltaScan(const DeltaTile& tile) {
  Block block;
  Read(tile, &block);
  Vf out[kVectors];
  if (tile.repeats) {
    DotColumns(block.s, tile.q, tile.key_dim, out);
    StoreColumns(out, tile.num_columns, tile.out);
    return;
  }
  Vf seen[kVectors];
  DotColumns(block.s, tile.k, tile.key_dim, seen);
  for (int64_t row = 0; row < tile.num_rows; ++row) {
    Advance(tile, row, &block, seen, out);
    StoreColumns(out, tile.num_columns, tile.out + row * tile.value_stride);
  }
  Write(tile, block);
}

void DeltaNormRowF32(const DeltaNormRow& row) { NormRow<float>(row); }
void DeltaNormRowBF16(const DeltaNormRow& row) { NormRow<uint16_t>(row); }

}  // namespace aril::kernels::ARIL_ISA
