// One block of columns whose weights are floats, BF16 or bytes.

#include "kernels/gemm/gemm_cpu.h"

#include "kernels/cpu/simd.h"
#include "kernels/gemm/gemm_blocks.h"
#include "kernels/gemm/gemm_groups.h"

namespace aril::kernels::ARIL_ISA {
namespace {

// The bytes of x stand for themselves minus the offset.
void WriteByteRow(const GemmBlock& b, const float* sums, int64_t row) {
  float* y = b.y + row * b.y_stride;
  for (int64_t col = 0; col < b.cols; col += kLanes) {
    const int64_t n = Min(kLanes, b.cols - col);
    Vi col_sums = {};
    __builtin_memcpy(&col_sums, b.col_sums + col, (size_t)n * 4);
    const Vi products = (Vi)Load(sums + col) - col_sums * kGemmByteOffset;
    const Vf scales = LoadUpTo(b.col_scales + col, n) * Set(b.row_scales[row]);
    Vf v = __builtin_convertvector(products, Vf) * scales;
    if (b.bias != nullptr) v = v + LoadUpTo(b.bias + col, n);
    StoreUpTo(y + col, v, n);
  }
}

template <typename T>
void Quantize(const QuantizeRow& row) {
  const T* x = static_cast<const T*>(row.x);
  const ByteRange range = RangeOf(x, row.size);
  *row.scale = range.scale;
  for (int64_t i = 0; i < row.size; i += kLanes) {
    const int64_t n = Min(kLanes, row.size - i);
    const Vb bytes = __builtin_convertvector(RoundedBytes(x + i, n, range) + kGemmByteOffset, Vb);
    __builtin_memcpy(row.out + i, &bytes, (size_t)n);
  }
}

template <typename T>
void RunBlock(const GemmBlock& b) {
  SumBlock<Groups<T>>(b);
  for (int64_t r = 0; b.ends && r < b.rows; ++r) {
    if constexpr (T::kIsInteger) {
      WriteByteRow(b, b.sums + r * kTileCols, r);
    } else {
      WriteRow(b, b.sums + r * kTileCols, r);
    }
  }
}

}  // namespace

extern const int64_t kGemmBlockCols = kTileCols;
void GemmBlockF32(const GemmBlock& block) { RunBlock<Float32>(block); }
void GemmBlockBF16(const GemmBlock& block) { RunBlock<Bfloat16>(block); }
void GemmBlockInt8(const GemmBlock& block) { RunBlock<Bytes>(block); }
void QuantizeRowF32(const QuantizeRow& row) { Quantize<float>(row); }
void QuantizeRowBF16(const QuantizeRow& row) { Quantize<uint16_t>(row); }

}  // namespace aril::kernels::ARIL_ISA
