#include <math.h>

#include "kernels/activation/activation_cuda.h"
#include "kernels/cuda/elements.h"

namespace aril::kernels::ARIL_CUDA_TARGET {
namespace {

constexpr int kThreads = 256;
// Elements of a thread: loads enough to hide one another's latency.
constexpr int kTogether = 4;
constexpr int kBlockElements = kTogether * kThreads;  // of a row

template <typename T>
ARIL_KERNEL(kThreads)
SiluMulKernel(ARIL_PARAMETER SiluMulArgs args) {
  FollowPreviousKernel();
  const int blocks_per_row = (args.size + kBlockElements - 1) / kBlockElements;
  const int row = BlockIdx() / blocks_per_row;
  const int first = BlockIdx() % blocks_per_row * kBlockElements + ThreadIdx();
  const float* in = args.gate_up + row * args.gate_up_stride;
  float gate[kTogether], up[kTogether];
  LoadStrided<kThreads>(in, first, args.size, gate);
  LoadStrided<kThreads>(in + args.size, first, args.size, up);
  auto* out = reinterpret_cast<typename T::Element*>(args.out) + row * args.out_stride;
#pragma unroll
  for (int k = 0; k < kTogether; ++k) {
    const int i = first + k * kThreads;
    if (i < args.size) out[i] = T::Narrow(gate[k] / (1.0f + expf(-gate[k])) * up[k]);
  }
}

}  // namespace

int SiluMul(const CudaContext& context, DType dtype, const SiluMulArgs& args) {
  if (args.rows == 0) return 0;
  const int blocks_per_row = (args.size + kBlockElements - 1) / kBlockElements;
  return LaunchFor(dtype, context, {args.rows * blocks_per_row, kThreads, 0}, SiluMulKernel<F32>,
                   SiluMulKernel<Bf16>, SiluMulKernel<F16>, args);
}

}  // namespace aril::kernels::ARIL_CUDA_TARGET
