// The per-instruction-set entry points of gemm_cpu.cc, gemm_codebook4_cpu.cc, gemm_float8_cpu.cc,
// gemm_int4_cpu.cc and gemm_amx.cc.

#ifndef ARIL_KERNELS_GEMM_GEMM_CPU_H_
#define ARIL_KERNELS_GEMM_GEMM_CPU_H_

#include "kernels/gemm/gemm_tile.h"

#define ARIL_DECLARE_GEMM(isa)                       \
  namespace aril::kernels::isa {                     \
  extern const int64_t kGemmBlockCols;               \
  extern const int64_t kGemmInt4BlockCols;           \
  extern const int64_t kGemmFloat8Lanes;             \
  void GemmBlockF32(const GemmBlock&);               \
  void GemmBlockBF16(const GemmBlock&);              \
  void GemmBlockInt8(const GemmBlock&);              \
  void GemmBlockInt4(const GemmBlock&);              \
  void GemmBlockFloat8F32(const GemmBlock&);         \
  void GemmBlockFloat8BF16(const GemmBlock&);        \
  extern const bool kGemmCodebook4HasPairs;          \
  void GemmBlockCodebook4F32(const GemmBlock&);      \
  void GemmBlockCodebook4BF16(const GemmBlock&);     \
  void GemmBlockCodebook4By32F32(const GemmBlock&);  \
  void GemmBlockCodebook4By32BF16(const GemmBlock&); \
  void QuantizeRowF32(const QuantizeRow&);           \
  void QuantizeRowBF16(const QuantizeRow&);          \
  void QuantizeGroupsF32(const QuantizeGroups&);     \
  void QuantizeGroupsBF16(const QuantizeGroups&);    \
  }

ARIL_DECLARE_GEMM(portable)
ARIL_DECLARE_GEMM(avx2)
ARIL_DECLARE_GEMM(avx512)

// gemm_amx.cc: not for floats.
namespace aril::kernels::amx {
extern const int64_t kGemmBlockCols;
extern const int64_t kGemmKMultiple;
void GemmBlockBF16(const GemmBlock&);
void GemmBlockInt8(const GemmBlock&);
}  // namespace aril::kernels::amx

#endif  // ARIL_KERNELS_GEMM_GEMM_CPU_H_
