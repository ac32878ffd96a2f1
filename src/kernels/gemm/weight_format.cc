#include "kernels/gemm/weight_format.h"

#include "base/check.h"
#include "kernels/gemm/gemm_tile.h"

namespace aril::kernels {

std::string_view Name(WeightFormat format) {
  switch (format) {
    case WeightFormat::kF32:
      return "f32";
    case WeightFormat::kBF16:
      return "bf16";
    case WeightFormat::kInt8:
      return "int8";
    case WeightFormat::kInt4:
      return "int4";
    case WeightFormat::kFloat8:
      return "fp8";
    case WeightFormat::kCodebook4:
      return "codebook4";
    case WeightFormat::kCodebook4By32:
      return "codebook4-by-32";
  }
  return "";
}

std::ostream& operator<<(std::ostream& out, WeightFormat format) { return out << Name(format); }

WeightFormat FormatOf(DType dtype) {
  CHECK(dtype == DType::kF32 || dtype == DType::kBF16);
  return dtype == DType::kF32 ? WeightFormat::kF32 : WeightFormat::kBF16;
}

double BytesPerWeight(WeightFormat format) {
  switch (format) {
    case WeightFormat::kF32:
      return 4;
    case WeightFormat::kBF16:
      return 2;
    case WeightFormat::kInt8:
    case WeightFormat::kFloat8:
      return 1;
    case WeightFormat::kInt4:
      return static_cast<double>(kInt4GroupBytes) / static_cast<double>(kInt4GroupSize);
    case WeightFormat::kCodebook4:
    case WeightFormat::kCodebook4By32: {
      const int64_t group = Codebook4GroupSize(format);
      return static_cast<double>(Codebook4GroupBytes(group)) / static_cast<double>(group);
    }
  }
  return 0;
}

bool IsCodebook4(WeightFormat format) {
  return format == WeightFormat::kCodebook4 || format == WeightFormat::kCodebook4By32;
}

int64_t Codebook4GroupSize(WeightFormat format) {
  CHECK(IsCodebook4(format));
  return format == WeightFormat::kCodebook4 ? kCodebook4GroupSize : kCodebook4SmallGroupSize;
}

bool IsQuantized(WeightFormat format) {
  return format != WeightFormat::kF32 && format != WeightFormat::kBF16;
}

bool RoundsActivations(WeightFormat format) {
  return format == WeightFormat::kInt8 || format == WeightFormat::kInt4;
}

}  // namespace aril::kernels
