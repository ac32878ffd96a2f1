// Attention's units of 64 keys by matrix instructions, for 16 queries: what tiles of both kinds do
// alike. Only attention_cuda.cu includes this.
//
// Keys and values lie in shared memory as rows of kDim elements, the head's and zeros behind them,
// in pieces of 16 bytes. Piece p of row r is at p ^ r % 8, so that neither eight pieces of a row
// nor one piece of eight rows share a bank.
//
// A warp's lane has queries g and g + 8 (device.h: g = lane / 4, t = lane % 4), and of them the
// elements 2t and 2t + 1 of every eight keys' scores, or of every eight columns of the values.

#ifndef ARIL_KERNELS_ATTENTION_ATTENTION_UNITS_CUDA_H_
#define ARIL_KERNELS_ATTENTION_ATTENTION_UNITS_CUDA_H_

#include "kernels/attention/attention_softmax_cuda.h"

namespace aril::kernels::ARIL_CUDA_TARGET {

constexpr int kUnit = 64;  // keys
constexpr int kUnitsOfSplit = kAttentionSplit / kUnit;
constexpr int kStep = 16;  // keys, or columns, that a matrix instruction multiplies
constexpr int kUnitSteps = kUnit / kStep;
constexpr int kWarpQueries = 16;

ARIL_DEVICE int Lane() { return ThreadIdx() % kWarpSize; }
ARIL_DEVICE int Warp() { return ThreadIdx() / kWarpSize; }

template <int kDim>
ARIL_DEVICE constexpr int RowBytes() {
  return kDim * 2;
}

// Asks for piece `piece` of a row of head_dim elements; zeros if there is no row.
ARIL_DEVICE void CopyPiece(const AttentionArgs& args, const std::byte* row, int piece,
                           std::byte* to) {
  const int head_dim = args.layer.head_dim, first = piece * 8;
  if (head_dim % 8 == 0) {
    const bool present = row != nullptr && first < head_dim;
    return CopyAsync16(to, present ? row + first * 2 : args.q, present);
  }
  const auto* words = reinterpret_cast<const uint32_t*>(row);
  auto* to_words = reinterpret_cast<uint32_t*>(to);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    to_words[i] = words != nullptr && first + 2 * i < head_dim ? words[first / 2 + i] : 0;
  }
}

// Asks for the keys, or the values, of tokens [kRows], null where they are not wanted, by the
// threads `thread`, thread + kStride, … of those that share the work.
template <int kDim, int kRows, int kStride>
ARIL_DEVICE void CopyRows(const AttentionArgs& args, const std::byte* const* tokens, int64_t offset,
                          int thread, std::byte* to) {
  constexpr int kPieces = kDim / 8;
#pragma unroll
  for (int i = 0; i < kRows * kPieces / kStride; ++i) {
    const int row = (thread + i * kStride) / kPieces, piece = (thread + i * kStride) % kPieces;
    const std::byte* token = tokens[row];
    CopyPiece(args, token == nullptr ? nullptr : token + offset, piece,
              to + row * RowBytes<kDim>() + (piece ^ row % 8) * 16);
  }
}

// The operand A of queries `first` + g and + 8 of the tile: zeros beyond its last one and head_dim.
template <int kDim>
ARIL_DEVICE void LoadQueries(const AttentionArgs& args, const Work& work, int first,
                             uint32_t (&q)[kDim / kStep][4]) {
  const uint32_t* rows[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int query = first + Lane() / 4 + 8 * r;
    rows[r] =
        query >= work.tile.num_queries
            ? nullptr
            : reinterpret_cast<const uint32_t*>(reinterpret_cast<const uint16_t*>(args.q) +
                                                QueryOffset(args, work, query, args.q_stride));
  }
#pragma unroll
  for (int step = 0; step < kDim / kStep; ++step) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int d = step * kStep + Lane() % 4 * 2 + i / 2 * 8;
      const uint32_t* row = rows[i % 2];
      q[step][i] = row != nullptr && d < args.layer.head_dim ? row[d / 2] : 0;
    }
  }
}

// scores[0] and [1] of the 16 keys from `keys` on, two matrix instructions wide.
template <typename T, int kDim>
ARIL_DEVICE void ScoreKeys(const uint32_t (&q)[kDim / kStep][4], const std::byte* keys,
                           float (&first)[4], float (&second)[4]) {
  const int lane = Lane();
  const std::byte* row = keys + (lane / 16 * 8 + lane % 8) * RowBytes<kDim>();
  const int piece = (lane / 8 % 2 ^ lane % 8) * 16;
#pragma unroll
  for (int step = 0; step < kDim / kStep; ++step) {
    uint32_t k[4];
    LoadMatrices(row + (piece ^ step * 32), k);
    T::Mma(first, q[step], {k[0], k[1]});
    T::Mma(second, q[step], {k[2], k[3]});
  }
}

// The values of step `step` of a unit's keys, which lie from `values` on: 16 columns from 16 · pair
// on, as operands of two instructions.
template <int kDim>
ARIL_DEVICE void LoadValues(const std::byte* values, int pair, uint32_t (&first)[2],
                            uint32_t (&second)[2]) {
  const int lane = Lane();
  const std::byte* row = values + lane % 16 * RowBytes<kDim>();
  uint32_t v[4];
  LoadMatricesTransposed(row + ((lane / 16 ^ lane % 8) * 16 ^ pair * 32), v);
  first[0] = v[0];
  first[1] = v[1];
  second[0] = v[2];
  second[1] = v[3];
}

// Takes away the scores of keys that a query, g and g + 8, does not see.
ARIL_DEVICE void HideUnseen(const Keys (&seen)[2], float (&scores)[kUnit / 8][4]) {
#pragma unroll
  for (int n = 0; n < kUnit / 8; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (!seen[i / 2].Has(n * 8 + Lane() % 4 * 2 + i % 2)) scores[n][i] = -kInfinity;
    }
  }
}

// The largest score of queries g and g + 8.
ARIL_DEVICE void FindMax(const float (&scores)[kUnit / 8][4], float scale, float (&max)[2]) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    max[r] = -kInfinity;
#pragma unroll
    for (int n = 0; n < kUnit / 8; ++n) {
      max[r] = fmaxf(max[r], fmaxf(scores[n][2 * r], scores[n][2 * r + 1]));
    }
    max[r] = fmaxf(max[r], ShuffleXor(max[r], 1));
    max[r] = fmaxf(max[r], ShuffleXor(max[r], 2)) * scale;
  }
}

// What the weights of a unit are relative to: the largest score of the split so far, which is
// -infinity before its first key. `keep` is for what was relative to the last one.
ARIL_DEVICE float Reference(float max) { return max == -kInfinity ? 0 : max; }
ARIL_DEVICE float KeepFactor(float last_max, float max) { return exp2f(last_max - Reference(max)); }

// A unit's weights as operands of its steps.
template <typename T>
ARIL_DEVICE void WeighKeys(const float (&scores)[kUnit / 8][4], float scale, const float (&max)[2],
                           uint32_t (&weights)[kUnitSteps][4]) {
#pragma unroll
  for (int n = 0; n < kUnit / 8; ++n) {
    float weight[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      weight[i] = exp2f(MultiplyAdd(scores[n][i], scale, -Reference(max[i / 2])));
    }
    weights[n / 2][n % 2 * 2] = T::Pack(weight[0], weight[1]);
    weights[n / 2][n % 2 * 2 + 1] = T::Pack(weight[2], weight[3]);
  }
}

// Their sums, of queries g and g + 8.
template <typename T>
ARIL_DEVICE void AddWeights(const uint32_t (&weights)[kUnitSteps][4], float (&sums)[2]) {
  float ones[4] = {};
#pragma unroll
  for (int step = 0; step < kUnitSteps; ++step) T::Mma(ones, weights[step], {T::kOnes, T::kOnes});
  sums[0] = ones[0];
  sums[1] = ones[2];
}

}  // namespace aril::kernels::ARIL_CUDA_TARGET

#endif  // ARIL_KERNELS_ATTENTION_ATTENTION_UNITS_CUDA_H_
