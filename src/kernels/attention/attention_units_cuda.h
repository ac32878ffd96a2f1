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

template <int kDim>
ARIL_DEVICE constexpr int RowBytes() {
  return kDim * 2;
}

// Where piece `piece` of a row is.
template <int kDim>
ARIL_DEVICE int PieceOffset(int row, int piece) {
  return row * RowBytes<kDim>() + (piece ^ Remainder(row, 8)) * 16;
}

// CopyRows of a head_dim whose rows do not begin at pieces: by words, and at once.
template <int kDim, int kRows, int kStride>
ARIL_DEVICE void CopyRowsByWords(const AttentionArgs& args, const std::byte* const* tokens,
                                 Keys wanted, int64_t offset, int thread, std::byte* to) {
  constexpr int kWords = kDim / 2;
#pragma unroll 1
  for (int i = thread; i < kRows * kWords; i += kStride) {
    const int row = i / kWords, word = i % kWords;
    const bool present = wanted.Has(row) && 2 * word < args.layer.head_dim;
    *reinterpret_cast<uint32_t*>(to + PieceOffset<kDim>(row, word / 4) + word % 4 * 4) =
        present ? reinterpret_cast<const uint32_t*>(tokens[row] + offset)[word] : 0;
  }
}

// Asks for the keys, or the values, of tokens [kRows], zeros for those that are not wanted, by the
// kStride threads that share the work, of which this is `thread`: eight for each 128 bytes.
template <int kDim, int kRows, int kStride>
ARIL_DEVICE void CopyRows(const AttentionArgs& args, const std::byte* const* tokens, Keys wanted,
                          int64_t offset, int thread, std::byte* to) {
  if (args.layer.head_dim % 8 != 0) [[unlikely]] {
    CopyRowsByWords<kDim, kRows, kStride>(args, tokens, wanted, offset, thread, to);
    return;
  }
  constexpr int kRowsAtATime = kStride / 8;
  static_assert(kRows % kRowsAtATime == 0);
  const int first_row = Quotient(thread, 8), piece = Remainder(thread, 8);
  const int pieces = Quotient(args.layer.head_dim, 8);
  const Keys here = wanted.From(first_row);
  const std::byte* from[kRows / kRowsAtATime];
#pragma unroll
  for (int i = 0; i < kRows / kRowsAtATime; ++i) {
    from[i] = tokens[first_row + i * kRowsAtATime] + (offset + piece * 16);
  }
#pragma unroll
  for (int i = 0; i < kRows / kRowsAtATime; ++i) {
    const int row = i * kRowsAtATime;
    std::byte* place = to + PieceOffset<kDim>(first_row + row, piece);
#pragma unroll
    for (int p = 0; p < kDim / 8; p += 8) {
      CopyAsync16(place + p * 16, from[i] + p * 16, here.Has(row) && piece + p < pieces);
    }
  }
}

// The operand A of queries g and g + 8, which begin at `rows`: zeros for those that are not there,
// and behind head_dim.
template <int kDim>
ARIL_DEVICE void LoadQueries(const AttentionArgs& args, const uint16_t* const (&rows)[2],
                             const bool (&are_there)[2], uint32_t (&q)[kDim / kStep][4]) {
  const int col = Lane() % 4 * 2;
  const uint32_t* words[2];
  int end[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    words[r] = reinterpret_cast<const uint32_t*>(rows[r] + col);
    end[r] = are_there[r] ? args.layer.head_dim - col : 0;
  }
#pragma unroll
  for (int step = 0; step < kDim / kStep; ++step) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int d = step * kStep + i / 2 * 8;
      q[step][i] = d < end[i % 2] ? words[i % 2][d / 2] : 0;
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

// Caps a unit's scores, all of which there are.
ARIL_DEVICE void CapScores(const AttentionArgs& args, float (&scores)[kUnit / 8][4]) {
#pragma unroll
  for (int n = 0; n < kUnit / 8; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) scores[n][i] = CapScore(args, scores[n][i]);
  }
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
