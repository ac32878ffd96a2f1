// Transposition of dwords between AVX-512 registers. Included by *_amx.cc only (see cpu/simd.h).

#ifndef ARIL_KERNELS_CPU_TRANSPOSE_AVX512_H_
#define ARIL_KERNELS_CPU_TRANSPOSE_AVX512_H_

#include <immintrin.h>

#include "kernels/cpu/simd.h"

namespace aril::kernels::amx {

// Transposes each 4 × 4: after it, rows[4i + j] has column 4c + j of the rows 4i … 4i + 3 in its
// quarter c.
template <int kRows>
ARIL_INLINE void TransposeQuarters(__m512i rows[kRows]) {
  __m512i a[kRows];
#pragma GCC unroll 8
  for (int i = 0; i < kRows; i += 2) {
    a[i] = _mm512_unpacklo_epi32(rows[i], rows[i + 1]);
    a[i + 1] = _mm512_unpackhi_epi32(rows[i], rows[i + 1]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < kRows; i += 4) {
    rows[i] = _mm512_unpacklo_epi64(a[i], a[i + 2]);
    rows[i + 1] = _mm512_unpackhi_epi64(a[i], a[i + 2]);
    rows[i + 2] = _mm512_unpacklo_epi64(a[i + 1], a[i + 3]);
    rows[i + 3] = _mm512_unpackhi_epi64(a[i + 1], a[i + 3]);
  }
}

// Transposes the 8 × 8 on the left, and that on the right.
ARIL_INLINE void TransposeHalves(__m512i rows[8]) {
  TransposeQuarters<8>(rows);
  const __m512i even = _mm512_setr_epi64(0, 1, 8, 9, 4, 5, 12, 13);
  const __m512i odd = _mm512_setr_epi64(2, 3, 10, 11, 6, 7, 14, 15);
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    const __m512i top = rows[j], bottom = rows[4 + j];
    rows[j] = _mm512_permutex2var_epi64(top, even, bottom);
    rows[4 + j] = _mm512_permutex2var_epi64(top, odd, bottom);
  }
}

// Transposes 16 × 16.
ARIL_INLINE void Transpose(__m512i rows[16]) {
  TransposeQuarters<16>(rows);
  __m512i a[16];
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    a[j] = _mm512_shuffle_i32x4(rows[j], rows[4 + j], 0x88);
    a[4 + j] = _mm512_shuffle_i32x4(rows[j], rows[4 + j], 0xDD);
    a[8 + j] = _mm512_shuffle_i32x4(rows[8 + j], rows[12 + j], 0x88);
    a[12 + j] = _mm512_shuffle_i32x4(rows[8 + j], rows[12 + j], 0xDD);
  }
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    rows[j] = _mm512_shuffle_i32x4(a[j], a[8 + j], 0x88);
    rows[8 + j] = _mm512_shuffle_i32x4(a[j], a[8 + j], 0xDD);
    rows[4 + j] = _mm512_shuffle_i32x4(a[4 + j], a[12 + j], 0x88);
    rows[12 + j] = _mm512_shuffle_i32x4(a[4 + j], a[12 + j], 0xDD);
  }
}

}  // namespace aril::kernels::amx

#endif  // ARIL_KERNELS_CPU_TRANSPOSE_AVX512_H_
