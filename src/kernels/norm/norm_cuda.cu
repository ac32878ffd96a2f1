// One block for each row, which it passes twice; the second time from the L1, where its own
// threads have just written it.

#include <math.h>

#include "kernels/cuda/elements.h"
#include "kernels/cuda/reduce.h"
#include "kernels/norm/norm_cuda.h"

namespace aril::kernels::ARIL_CUDA_TARGET {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarpSize;
constexpr int kTogether = 4;  // elements that a thread loads before it stores one
constexpr int kStep = kTogether * kThreads;

template <typename T>
ARIL_KERNEL(kThreads)
AddRmsNormKernel(ARIL_PARAMETER AddRmsNormArgs args) {
  FollowPreviousKernel();
  float* scratch = SharedMemory<float>();
  for (int row = BlockIdx(); row < args.rows; row += GridDim()) {
    float* residual = args.residual + row * args.residual_stride;
    const float* add = args.add == nullptr ? nullptr : args.add + row * args.add_stride;
    float squares = 0;
    for (int first = ThreadIdx(); first < args.size; first += kStep) {
      float values[kTogether], added[kTogether] = {};
      LoadStrided<kThreads>(residual, first, args.size, values);
      if (add != nullptr) LoadStrided<kThreads>(add, first, args.size, added);
#pragma unroll
      for (int k = 0; k < kTogether; ++k) {
        const int i = first + k * kThreads;
        if (i >= args.size) continue;
        if (add != nullptr) residual[i] = values[k] += added[k];
        squares = MultiplyAdd(values[k], values[k], squares);
      }
    }
    const float sum = BlockSum<kWarps>(squares, scratch);
    const float scale = 1.0f / sqrtf(sum / static_cast<float>(args.size) + args.eps);
    auto* out = reinterpret_cast<typename T::Element*>(args.out) + row * args.out_stride;
    for (int first = ThreadIdx(); first < args.size; first += kStep) {
      float values[kTogether], weights[kTogether];
      LoadStrided<kThreads>(residual, first, args.size, values);
      LoadStrided<kThreads>(args.weight, first, args.size, weights);
#pragma unroll
      for (int k = 0; k < kTogether; ++k) {
        const int i = first + k * kThreads;
        if (i < args.size) out[i] = T::Narrow(values[k] * scale * weights[k]);
      }
    }
    SyncThreads();  // before the next row's sum takes the scratch
  }
}

}  // namespace

int AddRmsNorm(const CudaContext& context, DType dtype, const AddRmsNormArgs& args) {
  if (args.rows == 0) return 0;
  return LaunchFor(dtype, context, {args.rows, kThreads, kWarps * sizeof(float)},
                   AddRmsNormKernel<F32>, AddRmsNormKernel<Bf16>, AddRmsNormKernel<F16>, args);
}

}  // namespace aril::kernels::ARIL_CUDA_TARGET
