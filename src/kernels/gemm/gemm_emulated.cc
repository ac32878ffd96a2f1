#include "kernels/gemm/gemm_emulated.h"

#include "base/check.h"
#include "kernels/cuda/emulator.h"

namespace aril::kernels {
namespace {

float ElementAt(const std::byte* values, int64_t index, DType dtype) {
  if (dtype == DType::kF32) return reinterpret_cast<const float*>(values)[index];
  const uint16_t bits = reinterpret_cast<const uint16_t*>(values)[index];
  return dtype == DType::kF16 ? emulator::F16ToFloat(bits) : emulator::Bf16ToFloat(bits);
}

void Multiply(const CudaGemmArgs& args) {
  for (int64_t row = 0; row < args.rows; ++row) {
    for (int64_t col = 0; col < args.n; ++col) {
      float sum = 0;
      for (int64_t i = 0; i < args.k; ++i) {
        sum += ElementAt(args.x, row * args.x_stride + i, args.dtype) *
               ElementAt(args.w, col * args.k + i, args.dtype);
      }
      args.y[row * args.y_stride + col] = sum + (args.bias == nullptr ? 0 : args.bias[col]);
    }
  }
}

class EmulatedGemm final : public CudaGemm {
 public:
  explicit EmulatedGemm(const emulator::Stream& stream) : stream_(stream) {}
  Status Run(const CudaGemmArgs& args) override {
    CHECK_LE(args.rows, args.max_rows);
    stream_.later->push_back([args] { Multiply(args); });
    return OkStatus();
  }
  Status Prepare(std::span<const CudaGemmArgs>) override { return OkStatus(); }

 private:
  const emulator::Stream& stream_;
};

}  // namespace

std::unique_ptr<CudaGemm> MakeEmulatedGemm(CudaDevice& device) {
  return std::make_unique<EmulatedGemm>(
      *static_cast<const emulator::Stream*>(device.context().stream));
}

}  // namespace aril::kernels
