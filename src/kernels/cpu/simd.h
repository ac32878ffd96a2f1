// The vector layer of the CPU kernels. Only `*_cpu.cc` files include it, and `*_amx.cc`: CMake
// compiles each of the former once per instruction set, with -DARIL_ISA=<name> and the matching -m
// flags, and everything here lives in the namespace of that instruction set. No other header with
// inline functions may be included there: the linker would keep one copy of such a function,
// perhaps the one with wide instructions, for the whole program (tools/check_isa_leaks.sh looks for
// that).
//
// A vector has kLanes floats. BF16 values come either one per lane, widened to float, or two per
// lane (a "pair": element 2i in the low half of lane i, 2i+1 in the high half) as the dot product
// takes them.

#ifndef ARIL_KERNELS_CPU_SIMD_H_
#define ARIL_KERNELS_CPU_SIMD_H_

#include <stddef.h>
#include <stdint.h>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#if !defined(ARIL_ISA)
#error "compile with -DARIL_ISA=portable, avx2, avx512 or amx"
#endif

#define ARIL_INLINE static inline __attribute__((always_inline, unused))

namespace aril::kernels::ARIL_ISA {

#if defined(__AVX512BF16__)
inline constexpr int kLanes = 16;
#elif defined(__AVX2__)
inline constexpr int kLanes = 8;
#else
inline constexpr int kLanes = 4;
#endif

// BF16 elements in one vector of pairs.
inline constexpr int kPairLanes = 2 * kLanes;

typedef float Vf __attribute__((vector_size(4 * kLanes)));
typedef int32_t Vi __attribute__((vector_size(4 * kLanes)));
typedef uint32_t Vu __attribute__((vector_size(4 * kLanes)));
typedef uint16_t Vh __attribute__((vector_size(2 * kLanes)));
typedef uint8_t Vb __attribute__((vector_size(kLanes)));

ARIL_INLINE int64_t Min(int64_t a, int64_t b) { return a < b ? a : b; }
ARIL_INLINE int64_t Max(int64_t a, int64_t b) { return a > b ? a : b; }

ARIL_INLINE Vf Zero() { return Vf{}; }
ARIL_INLINE Vf Set(float value) { return value - Vf{}; }
ARIL_INLINE Vi SetInt(int32_t value) { return value - Vi{}; }

// The lane numbers 0, 1, 2, …
ARIL_INLINE Vi Iota() {
  Vi v;
  for (int i = 0; i < kLanes; ++i) v[i] = i;
  return v;
}

ARIL_INLINE Vf Load(const float* p) {
  Vf v;
  __builtin_memcpy(&v, p, sizeof(v));
  return v;
}
ARIL_INLINE void Store(float* p, Vf v) { __builtin_memcpy(p, &v, sizeof(v)); }

// The first n < kLanes elements; the other lanes are zero and their memory is not touched.
ARIL_INLINE Vf LoadPartial(const float* p, int64_t n) {
#if defined(__AVX512BF16__)
  return (Vf)_mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), p);
#else
  Vf v = {};
  __builtin_memcpy(&v, p, (size_t)n * sizeof(float));
  return v;
#endif
}
ARIL_INLINE void StorePartial(float* p, Vf v, int64_t n) {
#if defined(__AVX512BF16__)
  _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), (__m512)v);
#else
  __builtin_memcpy(p, &v, (size_t)n * sizeof(float));
#endif
}

ARIL_INLINE Vf WidenBf16(Vh h) {
  const Vu wide = __builtin_convertvector(h, Vu) << 16;
  return (Vf)wide;
}

// Round to nearest, ties to even; NaN stays NaN. The same on every instruction set.
ARIL_INLINE Vh NarrowToBf16(Vf v) {
  const Vu bits = (Vu)v;
  const Vu rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16;
  const Vu quiet = (bits >> 16) | 0x40;
  const Vi is_nan = (Vi)(v != v);
  const Vu chosen = ((Vu)is_nan & quiet) | (~(Vu)is_nan & rounded);
  return __builtin_convertvector(chosen, Vh);
}

// kLanes BF16 values as floats; the partial form as LoadPartial.
ARIL_INLINE Vf LoadBf16(const uint16_t* p) {
  Vh h;
  __builtin_memcpy(&h, p, sizeof(h));
  return WidenBf16(h);
}
ARIL_INLINE Vf LoadBf16Partial(const uint16_t* p, int64_t n) {
  Vh h = {};
  __builtin_memcpy(&h, p, (size_t)n * sizeof(uint16_t));
  return WidenBf16(h);
}
// What is stored to such elements is rounded to BF16.
ARIL_INLINE void Store(uint16_t* p, Vf v) {
  const Vh h = NarrowToBf16(v);
  __builtin_memcpy(p, &h, sizeof(h));
}
ARIL_INLINE void StorePartial(uint16_t* p, Vf v, int64_t n) {
  const Vh h = NarrowToBf16(v);
  __builtin_memcpy(p, &h, (size_t)n * sizeof(uint16_t));
}

// kPairLanes BF16 values as pairs; the partial form fills up with zeros.
ARIL_INLINE Vu LoadPairs(const uint16_t* p) {
  Vu v;
  __builtin_memcpy(&v, p, sizeof(v));
  return v;
}
ARIL_INLINE Vu LoadPairsPartial(const uint16_t* p, int64_t n) {
#if defined(__AVX512BF16__)
  return (Vu)_mm512_maskz_loadu_epi16((__mmask32)((1ull << n) - 1), p);
#else
  Vu v = {};
  __builtin_memcpy(&v, p, (size_t)n * sizeof(uint16_t));
  return v;
#endif
}

// a * b + c, rounded once where the instruction set has it (the portable build rounds twice).
ARIL_INLINE Vf Fma(Vf a, Vf b, Vf c) {
#if defined(__AVX512BF16__)
  // As inline assembly because GCC 12 otherwise copies accumulators between registers and the
  // stack.
  asm("vfmadd231ps %2, %1, %0" : "+v"(c) : "v"(a), "v"(b));
  return c;
#elif defined(__AVX2__)
  return (Vf)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#else
  return a * b + c;
#endif
}

// acc[i] + the products of both pairs of lane i.
ARIL_INLINE Vf DotPairs(Vu a, Vu b, Vf acc) {
#if defined(__AVX512BF16__)
  asm("vdpbf16ps %2, %1, %0" : "+v"(acc) : "v"(a), "v"(b));
  return acc;
#else
  const Vu high = 0xFFFF0000u - Vu{};
  acc = Fma((Vf)(a << 16), (Vf)(b << 16), acc);
  return Fma((Vf)(a & high), (Vf)(b & high), acc);
#endif
}

// acc[i] + the products of the four bytes of lane i, those of `a` unsigned and those of `b` signed:
// exact. The accumulators are 32-bit integers in the bits of floats: in a loop over vectors of two
// types GCC 12 copies them all to the stack and back, which takes twice as long.
ARIL_INLINE Vf DotBytes(Vu a, Vu b, Vf acc) {
#if defined(__AVX512BF16__)
  asm("vpdpbusd %2, %1, %0" : "+v"(acc) : "v"(a), "v"(b));
  return acc;
#elif defined(__AVX2__)
  // Bytes 0 and 2, then 1 and 3, as 16-bit integers.
  const __m256i low = _mm256_set1_epi16(0xFF);
  const __m256i even = _mm256_madd_epi16(_mm256_and_si256((__m256i)a, low),
                                         _mm256_srai_epi16(_mm256_slli_epi16((__m256i)b, 8), 8));
  const __m256i odd =
      _mm256_madd_epi16(_mm256_srli_epi16((__m256i)a, 8), _mm256_srai_epi16((__m256i)b, 8));
  return (Vf)((Vi)acc + (Vi)_mm256_add_epi32(even, odd));
#else
  Vi sum = (Vi)acc;
  for (int byte = 0; byte < 4; ++byte) {
    sum += (Vi)((a >> (8 * byte)) & 0xFF) * ((Vi)(b << (24 - 8 * byte)) >> 24);
  }
  return (Vf)sum;
#endif
}

// The same, of up to 32 products for each lane, where the unsigned bytes are below 16: the sums fit
// 16 bits, and lie in halves of lanes until TotalOfSmall adds these up.
ARIL_INLINE Vf DotSmallBytes(Vu a, Vu b, Vf acc) {
#if !defined(__AVX512BF16__) && defined(__AVX2__)
  const __m256i pairs = _mm256_maddubs_epi16((__m256i)a, (__m256i)b);
  return (Vf)_mm256_add_epi16((__m256i)acc, pairs);
#else
  return DotBytes(a, b, acc);
#endif
}
ARIL_INLINE Vf TotalOfSmall(Vf acc) {
#if !defined(__AVX512BF16__) && defined(__AVX2__)
  return (Vf)_mm256_madd_epi16((__m256i)acc, _mm256_set1_epi16(1));
#else
  return acc;
#endif
}

// acc[i] + the product of the low halves of lane i, taken as signed 16-bit integers; the high
// halves of `a` are zero.
ARIL_INLINE Vf AddProductOfHalves(Vu a, Vu b, Vf acc) {
#if defined(__AVX512BF16__)
  asm("vpdpwssd %2, %1, %0" : "+v"(acc) : "v"(a), "v"(b));
  return acc;
#elif defined(__AVX2__)
  return (Vf)((Vi)acc + (Vi)_mm256_madd_epi16((__m256i)a, (__m256i)b));
#else
  return (Vf)((Vi)acc + (Vi)a * ((Vi)(b << 16) >> 16));
#endif
}

// The floats next to integers that lie in the bits of floats.
ARIL_INLINE Vf FromInts(Vf bits) {
#if defined(__AVX512BF16__)
  Vf result;
  asm("vcvtdq2ps %1, %0" : "=v"(result) : "v"(bits));
  return result;
#else
  return __builtin_convertvector((Vi)bits, Vf);
#endif
}

// kLanes bytes as integers.
ARIL_INLINE Vu WidenBytes(const uint8_t* p) {
#if defined(__AVX512BF16__)
  Vu result;  // of a conversion of vectors, GCC 12 makes one of each lane
  asm("vpmovzxbd %1, %0" : "=v"(result) : "m"(*(const __m128i_u*)p));
  return result;
#elif defined(__AVX2__)
  return (Vu)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i_u*)p));
#else
  Vb bytes;
  __builtin_memcpy(&bytes, p, sizeof(bytes));
  return __builtin_convertvector(bytes, Vu);
#endif
}

// kLanes finite FP16 values as floats.
ARIL_INLINE Vf LoadF16(const uint16_t* p) {
#if defined(__AVX512BF16__)
  Vf result;  // GCC 12 takes its own intrinsic to read what is not initialized
  asm("vcvtph2ps %1, %0" : "=v"(result) : "m"(*(const __m256i_u*)p));
  return result;
#else
  Vh h;
  __builtin_memcpy(&h, p, sizeof(h));
  // As floats the exponent's bias is less by 112.
  const Vu wide = __builtin_convertvector(h, Vu);
  const Vf magnitude = (Vf)((wide & 0x7FFF) << 13) * Set(0x1p112f);
  return (Vf)((Vu)magnitude | ((wide & 0x8000) << 16));
#endif
}

struct TwoVectors {
  Vu first, second;
};

#if defined(__AVX2__)
// Of an F8E4M3 whose exponent is 0, by its mantissa: the upper and the lower byte of the BF16.
inline constexpr long long kFloat8SubnormalHigh = 0x3C3C3C3C3B3B3B00;
inline constexpr long long kFloat8SubnormalLow = 0x60402000C0800000;
#endif

// 4 · kLanes finite F8E4M3 (tensor/dtype.h) as pairs of BF16, which hold them exactly. Of each
// eight pairs the first four are in the first vector, the others in the second.
ARIL_INLINE TwoVectors LoadFloat8(const uint8_t* p) {
  // Of s eeee mmm the lower byte is e mmm 0000 and the upper s, then 60 more than eee: of 127, the
  // exponent's bias here, it is 7 there. But those whose exponent is 0 are no normal numbers, and
  // BF16's products take none that are not.
#if defined(__AVX512BF16__)
  const __m512i bytes = _mm512_loadu_si512(p);
  const __m512i nibble = _mm512_and_si512(bytes, _mm512_set1_epi8(0x0F));
  const __m512i exponent = _mm512_and_si512(_mm512_srli_epi16(bytes, 4), _mm512_set1_epi8(7));
  const __mmask64 is_subnormal = _mm512_testn_epi8_mask(bytes, _mm512_set1_epi8(0x78));
  const __m512i low = _mm512_mask_shuffle_epi8(
      _mm512_and_si512(_mm512_slli_epi16(bytes, 4), _mm512_set1_epi8((char)0xF0)), is_subnormal,
      _mm512_set1_epi64(kFloat8SubnormalLow), nibble);
  const __m512i magnitude =
      _mm512_mask_shuffle_epi8(_mm512_add_epi8(exponent, _mm512_set1_epi8(60)), is_subnormal,
                               _mm512_set1_epi64(kFloat8SubnormalHigh), nibble);
  // magnitude | (bytes & 0x80)
  const __m512i high =
      _mm512_ternarylogic_epi32(magnitude, bytes, _mm512_set1_epi8((char)0x80), 0xF8);
  return {(Vu)_mm512_unpacklo_epi8(low, high), (Vu)_mm512_unpackhi_epi8(low, high)};
#elif defined(__AVX2__)
  const __m256i bytes = _mm256_loadu_si256((const __m256i_u*)p);
  const __m256i nibble = _mm256_and_si256(bytes, _mm256_set1_epi8(0x0F));
  const __m256i exponent = _mm256_and_si256(_mm256_srli_epi16(bytes, 4), _mm256_set1_epi8(7));
  const __m256i is_subnormal =
      _mm256_cmpeq_epi8(_mm256_and_si256(bytes, _mm256_set1_epi8(0x78)), _mm256_setzero_si256());
  const __m256i low = _mm256_blendv_epi8(
      _mm256_and_si256(_mm256_slli_epi16(bytes, 4), _mm256_set1_epi8((char)0xF0)),
      _mm256_shuffle_epi8(_mm256_set1_epi64x(kFloat8SubnormalLow), nibble), is_subnormal);
  const __m256i magnitude = _mm256_blendv_epi8(
      _mm256_add_epi8(exponent, _mm256_set1_epi8(60)),
      _mm256_shuffle_epi8(_mm256_set1_epi64x(kFloat8SubnormalHigh), nibble), is_subnormal);
  const __m256i high =
      _mm256_or_si256(magnitude, _mm256_and_si256(bytes, _mm256_set1_epi8((char)0x80)));
  return {(Vu)_mm256_unpacklo_epi8(low, high), (Vu)_mm256_unpackhi_epi8(low, high)};
#else
  // Or as floats, of which these are the upper halves, once their bias is right.
  TwoVectors result;
  Vu* const vectors[] = {&result.first, &result.second};
  for (int half = 0; half < 2; ++half) {
    Vh both;
    __builtin_memcpy(&both, p + half * sizeof(both), sizeof(both));
    const Vu wide = __builtin_convertvector(both, Vu);
    const Vf even = (Vf)((Vu)((Vi)(wide << 24) >> 4) & 0x87F00000u) * Set(0x1p120f);
    const Vf odd = (Vf)((Vu)((Vi)(wide << 16) >> 4) & 0x87F00000u) * Set(0x1p120f);
    *vectors[half] = (Vu)even >> 16 | ((Vu)odd & 0xFFFF0000u);
  }
  return result;
#endif
}

// Sixteen floats to look up.
struct Table {
#if defined(__AVX512BF16__)
  Vf all;
#elif defined(__AVX2__)
  Vf low, high;
#else
  const float* all;
#endif
};

ARIL_INLINE Table LoadTable(const float* p) {
#if defined(__AVX512BF16__)
  return {Load(p)};
#elif defined(__AVX2__)
  return {Load(p), Load(p + kLanes)};
#else
  return {p};
#endif
}

// Of each lane the float that its low four bits say; the other bits may be any.
ARIL_INLINE Vf LookUp(const Table& table, Vu index) {
#if defined(__AVX512BF16__)
  Vf result;  // as MaxLanes
  asm("vpermps %2, %1, %0" : "=v"(result) : "v"(index), "v"(table.all));
  return result;
#elif defined(__AVX2__)
  const __m256 low = _mm256_permutevar8x32_ps((__m256)table.low, (__m256i)index);
  const __m256 high = _mm256_permutevar8x32_ps((__m256)table.high, (__m256i)index);
  return (Vf)_mm256_blendv_ps(low, high, (__m256)(index << 28));
#else
  Vf result;
  for (int lane = 0; lane < kLanes; ++lane) result[lane] = table.all[index[lane] & 15];
  return result;
#endif
}

#if defined(__AVX512BF16__)
// 32 BF16 to look up, of which the second half repeats the first. Of each lane two, as pairs: those
// that the low four bits of its low half say, and of its high half.
ARIL_INLINE Vu LookUpPairs(Vu table, Vu index) {
  Vu result;
  asm("vpermw %2, %1, %0" : "=v"(result) : "v"(index), "v"(table));
  return result;
}
#endif

// If a lane of one of them is NaN, b's. (As inline assembly because GCC 12 compares and blends
// otherwise, and takes its own intrinsics to read what is not initialized.)
ARIL_INLINE Vf MaxLanes(Vf a, Vf b) {
#if defined(__AVX512BF16__)
  Vf result;
  asm("vmaxps %2, %1, %0" : "=v"(result) : "v"(a), "v"(b));
  return result;
#else
  return a > b ? a : b;
#endif
}
ARIL_INLINE Vf MinLanes(Vf a, Vf b) {
#if defined(__AVX512BF16__)
  Vf result;
  asm("vminps %2, %1, %0" : "=v"(result) : "v"(a), "v"(b));
  return result;
#else
  return a < b ? a : b;
#endif
}

// The lanes below `distance`, a power of two below kLanes, of the result are v's next `distance`
// lanes; the others, any.
ARIL_INLINE Vf MoveDown(Vf v, int distance) {
#if defined(__AVX512BF16__)
  switch (distance) {
    case 8:
      return __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15, 8, 9, 10, 11, 12, 13, 14,
                                     15);
    case 4:
      return __builtin_shufflevector(v, v, 4, 5, 6, 7, 4, 5, 6, 7, 12, 13, 14, 15, 12, 13, 14, 15);
    case 2:
      return __builtin_shufflevector(v, v, 2, 3, 2, 3, 6, 7, 6, 7, 10, 11, 10, 11, 14, 15, 14, 15);
    default:
      return __builtin_shufflevector(v, v, 1, 1, 3, 3, 5, 5, 7, 7, 9, 9, 11, 11, 13, 13, 15, 15);
  }
#elif defined(__AVX2__)
  switch (distance) {
    case 4:
      return __builtin_shufflevector(v, v, 4, 5, 6, 7, 4, 5, 6, 7);
    case 2:
      return __builtin_shufflevector(v, v, 2, 3, 2, 3, 6, 7, 6, 7);
    default:
      return __builtin_shufflevector(v, v, 1, 1, 3, 3, 5, 5, 7, 7);
  }
#else
  for (int i = 0; i + distance < kLanes; ++i) v[i] = v[i + distance];
  return v;
#endif
}

// Horizontal sum and maximum: halves are folded until one lane is left, always in this order.
ARIL_INLINE float Sum(Vf v) {
#pragma GCC unroll 4
  for (int half = kLanes / 2; half > 0; half /= 2) v = v + MoveDown(v, half);
  return v[0];
}
ARIL_INLINE float HorizontalMax(Vf v) {
#pragma GCC unroll 4
  for (int half = kLanes / 2; half > 0; half /= 2) v = MaxLanes(v, MoveDown(v, half));
  return v[0];
}

// Of a row, in one vector, which is then folded.
ARIL_INLINE float SumOfSquares(const float* x, int64_t size) {
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
  return Sum(squares);
}

// Neighbouring lanes added: lane i of the result is a's lanes 2i and 2i+1, then b's.
ARIL_INLINE Vf AddNeighbours(Vf a, Vf b) {
#if defined(__AVX512BF16__)
  return __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30) +
         __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
#elif defined(__AVX2__)
  return __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14) +
         __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15);
#else
  return __builtin_shufflevector(a, b, 0, 2, 4, 6) + __builtin_shufflevector(a, b, 1, 3, 5, 7);
#endif
}

// Lane i of the result is the sum of v[i]'s lanes, by a tree of neighbours. Destroys v.
ARIL_INLINE Vf SumEach(Vf v[kLanes]) {
#pragma GCC unroll 4
  for (int n = kLanes / 2; n > 0; n /= 2) {
#pragma GCC unroll 8
    for (int i = 0; i < n; ++i) v[i] = AddNeighbours(v[2 * i], v[2 * i + 1]);
  }
  return v[0];
}

// p * x + c, rounded like Fma: a step of Horner's scheme, which keeps x and c.
ARIL_INLINE Vf MultiplyThenAdd(Vf p, Vf x, Vf c) {
#if defined(__AVX512BF16__)
  asm("vfmadd213ps %2, %1, %0" : "+v"(p) : "v"(x), "v"(c));
  return p;
#else
  return Fma(p, x, c);
#endif
}

// e^x to about 2 ulp; 0 for x < -87.3 (also -inf), where e^x leaves the normal floats; x > 88
// as 88. NaN stays NaN. Cody and Waite: x = n ln 2 + r, e^r by its Taylor polynomial of degree 7
// (|r| ≤ 0.35: relative error 2e-9), scaled by 2^n in the exponent bits.
ARIL_INLINE Vf Exp(Vf x) {
  const Vf log2e = Set(1.44269504088896341f);
  const Vf shifter = Set(12582912.0f);  // 1.5 · 2^23: adding it rounds to an integer
  // x is the second operand, which is chosen if one is NaN.
  const Vf clamped = MinLanes(Set(88.0f), MaxLanes(Set(-87.3f), x));
  const Vf n = (clamped * log2e + shifter) - shifter;
  Vf r = Fma(n, Set(-0.693359375f), clamped);
  r = Fma(n, Set(2.12194440e-4f), r);
  Vf p = Set(1.0f / 5040);
  p = MultiplyThenAdd(p, r, Set(1.0f / 720));
  p = MultiplyThenAdd(p, r, Set(1.0f / 120));
  p = MultiplyThenAdd(p, r, Set(1.0f / 24));
  p = MultiplyThenAdd(p, r, Set(1.0f / 6));
  p = MultiplyThenAdd(p, r, Set(0.5f));
  p = MultiplyThenAdd(p, r, Set(1.0f));
  p = MultiplyThenAdd(p, r, Set(1.0f));
  // Of NaN, n becomes the least integer, whose lower bits are all zero: p stays as it is.
  const Vi exponent = __builtin_convertvector(n, Vi) << 23;
  const Vf result = (Vf)((Vi)p + exponent);
  return x < -87.3f ? Zero() : result;
}

// x / (1 + e^-x).
ARIL_INLINE Vf Silu(Vf x) { return x / (1.0f + Exp(-x)); }

// (1 + tanh u) / 2 is 1 / (1 + e^-2u).
ARIL_INLINE Vf GeluTanh(Vf x) {
  const Vf cubic = Fma(x * x * x, Set(0.044715f), x);
  return x / (1.0f + Exp(cubic * -1.5957691216057308f));  // -2 √(2/π)
}

// To about 3 ulp. Near zero Lambert's continued fraction, whose error at 1 is 6e-8.
ARIL_INLINE Vf Tanh(Vf x) {
  const Vf squared = x * x;
  const Vf above = Fma(squared, squared + 105.0f, Set(945.0f));
  const Vf below = Fma(squared, Fma(squared, Set(15.0f), Set(420.0f)), Set(945.0f));
  const Vf far = 1.0f - 2.0f / (1.0f + Exp(x + x));
  return squared < 1.0f ? x * above / below : far;
}

ARIL_INLINE Vf Softcap(Vf x, float cap) { return cap * Tanh(x * (1 / cap)); }

}  // namespace aril::kernels::ARIL_ISA

#endif  // ARIL_KERNELS_CPU_SIMD_H_
