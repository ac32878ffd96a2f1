// A warp's products with quantized weights: chunks of W in registers, as elements that tensor cores
// multiply, and sums of a slice of k. Only .cu files include this.

#ifndef ARIL_KERNELS_GEMM_QUANTIZED_SUMS_CUDA_H_
#define ARIL_KERNELS_GEMM_QUANTIZED_SUMS_CUDA_H_

#include "kernels/cuda/elements.h"
#include "kernels/gemm/quantized_layout.h"

namespace aril::kernels::ARIL_CUDA_TARGET {

constexpr int kSlices = 8;  // of k

// Of a warp: 32 outputs, which are a tile of W, and up to 32 rows.
constexpr int kColOperands = 2;
constexpr int kMaxSlots = 4;  // instructions of 8 rows
template <int kSlots>
using WarpSums = float[kColOperands][kSlots][4];
template <int kSlots>
constexpr int kSumsOfLane = kColOperands* kSlots * 4;

template <int kSlots>
ARIL_DEVICE float& SumAt(WarpSums<kSlots>& sums, int i) {
  return sums[i / 4 / kSlots][i / 4 % kSlots][i % 4];
}

// What lies in a warp's sums where: outputs and rows of its tile.
ARIL_DEVICE int ColOf(int operand, int i) {
  return operand * 16 + ThreadIdx() % kWarpSize / 4 + i / 2 * 8;
}
ARIL_DEVICE int RowInSlot(int i) { return ThreadIdx() % 4 * 2 + i % 2; }

// W's Factors are what a group's sums of a lane's four outputs are multiplied by, and what else its
// elements are made with. They are made of the block's look-up table, if there is one.

// With zero points.
struct Int4Factors {
  uint32_t zeros = 0;
  uint64_t factors = 0;

  ARIL_DEVICE explicit Int4Factors(const uint32_t*) {}
  ARIL_DEVICE void Load(const QuantizedLayout& layout, const std::byte* tile, int place) {
    zeros = reinterpret_cast<const uint32_t*>(tile + layout.zeros_offset)[place];
    factors = reinterpret_cast<const uint64_t*>(tile + layout.factors_offset)[place];
  }
  ARIL_DEVICE uint64_t Get() const { return factors; }
  ARIL_DEVICE static float Of(uint64_t factors, int output) {
    return F16ToFloat(static_cast<uint16_t>(factors >> 16 * output));
  }
};

// What a lane has of a chunk of four bits. `chunk`: its first vector, in shared or global memory.
struct WordsOfChunk {
  static constexpr int kVectors = kWarpSize;  // of 16 bytes, of all lanes
  Vector16 words;

  ARIL_DEVICE static WordsOfChunk FromShared(const Vector16* chunk) {
    return {chunk[ThreadIdx() % kWarpSize]};
  }
  ARIL_DEVICE static WordsOfChunk FromGlobal(const Vector16* chunk) {
    return {LoadWeights16(chunk + ThreadIdx() % kWarpSize)};
  }
  // Eight neighbours, of the lane's output `i`.
  ARIL_DEVICE uint32_t Word(int i) const { return words.words[i]; }
};

// And of a chunk of bytes.
struct BytesOfChunk {
  static constexpr int kVectors = 2 * kWarpSize;
  Vector16 halves[2];

  ARIL_DEVICE static BytesOfChunk FromShared(const Vector16* chunk) {
    const int lane = ThreadIdx() % kWarpSize;
    return {{chunk[lane], chunk[kWarpSize + lane]}};
  }
  ARIL_DEVICE static BytesOfChunk FromGlobal(const Vector16* chunk) {
    const int lane = ThreadIdx() % kWarpSize;
    return {{LoadWeights16(chunk + lane), LoadWeights16(chunk + kWarpSize + lane)}};
  }
  // Two neighbours, of eight of the lane's output `i`, in the low 16 bits.
  ARIL_DEVICE uint32_t Pair(int i, int pair) const {
    return halves[i / 2].words[i % 2 * 2 + pair / 2] >> pair % 2 * 16;
  }
};

struct Int4Chunk {
  using Factors = Int4Factors;
  WordsOfChunk levels;

  // Eight elements of the lane's output `i`: levels less their zero point. Both are below 16, so
  // that beside T's first power of two whose unit is one they are the last bits of a number.
  template <typename T>
  ARIL_DEVICE Vector16 Elements(int i, const Int4Factors& of_group) const {
    const uint32_t zero = of_group.zeros >> 8 * i & 0xFF;
    const uint32_t minus = (T::kUnitPower | zero | zero << 16) ^ 0x80008000u;
    Vector16 elements;
#pragma unroll
    for (int pair = 0; pair < 4; ++pair) {
      const uint32_t two = levels.Word(i) >> 4 * pair & 0x000F000Fu;
      elements.words[pair] = T::AddPairs(two | T::kUnitPower, minus);
    }
    return elements;
  }
};

struct NoFactors {};

struct Int8Chunk {
  BytesOfChunk levels;

  // Likewise, by way of fp32, where a byte is the end of 2^23.
  template <typename T>
  ARIL_DEVICE Vector16 Elements(int i, const NoFactors&) const {
    const auto level = [](uint32_t byte) {
      return BitCast<float>(0x4B000000u | byte) - static_cast<float>((1 << 23) + 128);
    };
    Vector16 elements;
#pragma unroll
    for (int pair = 0; pair < 4; ++pair) {
      const uint32_t two = levels.Pair(i, pair);
      elements.words[pair] = T::Pack(level(two & 0xFF), level(two >> 8 & 0xFF));
    }
    return elements;
  }
};

// They are read when a group ends: there are no registers for them, and groups are long.
struct Float8Factors {
  const Vector16* factors = nullptr;

  ARIL_DEVICE explicit Float8Factors(const uint32_t*) {}
  ARIL_DEVICE void Load(const QuantizedLayout& layout, const std::byte* tile, int place) {
    factors = reinterpret_cast<const Vector16*>(tile + layout.factors_offset) + place;
  }
  ARIL_DEVICE Vector16 Get() const { return *factors; }
  ARIL_DEVICE static float Of(const Vector16& factors, int output) {
    return BitCast<float>(factors.words[output]);
  }
};

struct Float8Chunk {
  using Factors = Float8Factors;
  BytesOfChunk levels;

  // Eight elements: both T hold them exactly.
  template <typename T>
  ARIL_DEVICE Vector16 Elements(int i, const Float8Factors&) const {
    Vector16 elements;
#pragma unroll
    for (int pair = 0; pair < 4; ++pair) {
      const uint32_t two = levels.Pair(i, pair);
      const uint32_t halves = (two & 0xFF) | (two & 0xFF00) << 8;
      const uint32_t magnitudes = (halves & 0x007F007Fu) << T::kFloat8Shift;
      elements.words[pair] =
          T::MultiplyPairs(magnitudes | (halves & 0x00800080u) << 8, T::kFloat8Power);
    }
    return elements;
  }
};

// What two neighbouring codes stand for, which are a byte: two elements of T for each, so many
// times that a bank has the copies of two lanes. With twice as many it would have one lane's, for
// twice the memory.
constexpr int kTableCopies = kWarpSize / 2;
constexpr int kTableWords = 256 * kTableCopies;
template <typename T>
ARIL_DEVICE void FillTable(const QuantizedLayout& layout, int thread, int num_threads,
                           uint32_t* table) {
  for (int i = thread; i < kTableWords; i += num_threads) {
    const int byte = i / kTableCopies;
    table[i] = T::Pack(layout.codebook[byte & 15], layout.codebook[byte >> 4]);
  }
}

// With the lane's copy of the table.
struct Codebook4Factors {
  const uint32_t* pairs;
  Vector16 factors = {};

  ARIL_DEVICE explicit Codebook4Factors(const uint32_t* table)
      : pairs(table + ThreadIdx() % kTableCopies) {}
  ARIL_DEVICE void Load(const QuantizedLayout& layout, const std::byte* tile, int place) {
    factors = reinterpret_cast<const Vector16*>(tile + layout.factors_offset)[place];
  }
  ARIL_DEVICE Vector16 Get() const { return factors; }
  ARIL_DEVICE static float Of(const Vector16& factors, int output) {
    return BitCast<float>(factors.words[output]);
  }
};

struct Codebook4Chunk {
  using Factors = Codebook4Factors;
  WordsOfChunk levels;

  template <typename T>
  ARIL_DEVICE Vector16 Elements(int i, const Codebook4Factors& of_group) const {
    Vector16 elements;
#pragma unroll
    for (int pair = 0; pair < 4; ++pair) {
      const uint32_t byte = levels.Word(i) >> 8 * pair & 0xFF;
      elements.words[pair] = of_group.pairs[byte * kTableCopies];
    }
    return elements;
  }
};

template <typename W>
constexpr int kChunkVectors = decltype(W::levels)::kVectors;
template <typename W>
ARIL_DEVICE W FromShared(const Vector16* chunk) {
  return {decltype(W::levels)::FromShared(chunk)};
}
template <typename W>
ARIL_DEVICE W FromGlobal(const Vector16* chunk) {
  return {decltype(W::levels)::FromGlobal(chunk)};
}

ARIL_DEVICE int FirstChunk(const QuantizedLayout& layout, int slice) {
  return static_cast<int>(static_cast<int64_t>(layout.chunks) * slice / kSlices);
}

// A warp's sums of a slice, of products with one tile of W: those of groups times their factors.
template <typename W, int kSlots>
struct SliceSums {
  WarpSums<kSlots> slice = {};
  WarpSums<kSlots> group = {};
  const std::byte* tile;
  const QuantizedLayout& layout;
  int index = 0, end = 0;  // the group, and the chunk behind its last one
  typename W::Factors factors;

  ARIL_DEVICE SliceSums(const QuantizedLayout& of, const std::byte* at, const uint32_t* table)
      : tile(at), layout(of), factors(table) {}
  ARIL_DEVICE void Begin(int chunk) {
    index = chunk / layout.group_chunks;
    Load();
  }
  ARIL_DEVICE void Load() {
    end = (index + 1) * layout.group_chunks;
    if (index * layout.group_chunks >= layout.chunks) return;
    factors.Load(layout, tile, index * 8 + ThreadIdx() % kWarpSize / 4);
  }
  ARIL_DEVICE WarpSums<kSlots>& sums() { return group; }
  // Of the chunk that was multiplied last.
  ARIL_DEVICE void EndChunk(int chunk, bool ends_slice) {
    if (chunk + 1 < end && !ends_slice) return;
    const auto of_group = factors.Get();
#pragma unroll
    for (int c = 0; c < kColOperands; ++c) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float factor = W::Factors::Of(of_group, 2 * c + i / 2);
#pragma unroll
        for (int slot = 0; slot < kSlots; ++slot) {
          slice[c][slot][i] = MultiplyAdd(factor, group[c][slot][i], slice[c][slot][i]);
          group[c][slot][i] = 0;
        }
      }
    }
    if (chunk + 1 < end) return;
    ++index;
    Load();
  }
};

template <int kSlots>
struct SliceSums<Int8Chunk, kSlots> {
  WarpSums<kSlots> slice = {};
  NoFactors factors;

  ARIL_DEVICE SliceSums(const QuantizedLayout&, const std::byte*, const uint32_t*) {}
  ARIL_DEVICE void Begin(int) {}
  ARIL_DEVICE WarpSums<kSlots>& sums() { return slice; }
  ARIL_DEVICE void EndChunk(int, bool) {}
};

// A chunk's products. `x_of(slot)`: 16 bytes of the lane's row of x.
template <typename T, typename W, int kSlots, typename XOf>
ARIL_DEVICE void MultiplyChunk(const W& w, const XOf& x_of, int num_slots,
                               SliceSums<W, kSlots>& sums) {
  Vector16 elements[2 * kColOperands];
#pragma unroll
  for (int i = 0; i < 2 * kColOperands; ++i) {
    elements[i] = w.template Elements<T>(i, sums.factors);
  }
#pragma unroll
  for (int slot = 0; slot < kSlots; ++slot) {
    if (slot >= num_slots) break;
    const Vector16 x = x_of(slot);
#pragma unroll
    for (int c = 0; c < kColOperands; ++c) {
      TwoInstructions<T>(elements[2 * c], elements[2 * c + 1], x, sums.sums()[c][slot]);
    }
  }
}

}  // namespace aril::kernels::ARIL_CUDA_TARGET

#endif  // ARIL_KERNELS_GEMM_QUANTIZED_SUMS_CUDA_H_
