// One block for each row. What a thread has of a row stays in its registers, up to the bounds of
// the kernels below; the rest is passed twice, the second time from the L1, where its own threads
// have just written it.

#include <math.h>

#include "kernels/cuda/elements.h"
#include "kernels/cuda/reduce.h"
#include "kernels/norm/norm_cuda.h"

namespace aril::kernels::ARIL_CUDA_TARGET {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarpSize;
// Elements that a thread holds: all of rows of up to 4096, as 7B has, or of 8192.
constexpr int kFewHeld = 16;
constexpr int kManyHeld = 32;
constexpr int kTogether = 4;  // of the rest, that a thread loads before it stores one
constexpr int kStep = kTogether * kThreads;

// Adds a thread's elements first, first + kThreads, … of `add`, unless that is null, to those of
// the residual, which are left in `values`. Returns `squares` with theirs added in order.
template <int kCount>
ARIL_DEVICE float AddElements(float* residual, const float* add, int first, int size,
                              float (&values)[kCount], float squares) {
  float added[kCount] = {};
  LoadStrided<kThreads>(residual, first, size, values);
  if (add != nullptr) LoadStrided<kThreads>(add, first, size, added);
#pragma unroll
  for (int k = 0; k < kCount; ++k) {
    const int i = first + k * kThreads;
    if (i >= size) continue;
    if (add != nullptr) residual[i] = values[k] += added[k];
    squares = MultiplyAdd(values[k], values[k], squares);
  }
  return squares;
}

template <typename T, int kCount>
ARIL_DEVICE void StoreNormalized(const float (&values)[kCount], float scale,
                                 const float (&weights)[kCount], int first, int size,
                                 typename T::Element* out) {
#pragma unroll
  for (int k = 0; k < kCount; ++k) {
    const int i = first + k * kThreads;
    if (i < size) out[i] = T::Narrow(values[k] * scale * weights[k]);
  }
}

template <typename T, int kHeld>
ARIL_KERNEL(kThreads, 2)
AddRmsNormKernel(ARIL_PARAMETER AddRmsNormArgs args) {
  const int thread = ThreadIdx();
  const int rest = thread + kHeld * kThreads;
  // No kernel writes them: they come while the one before this one still runs.
  float weights[kHeld];
  LoadStrided<kThreads>(args.weight, thread, args.size, weights);
  FollowPreviousKernel();
  float* scratch = SharedMemory<float>();
  for (int row = BlockIdx(); row < args.rows; row += GridDim()) {
    float* residual = args.residual + row * args.residual_stride;
    const float* add = args.add == nullptr ? nullptr : args.add + row * args.add_stride;
    float values[kHeld];
    float squares = AddElements(residual, add, thread, args.size, values, 0.0f);
    for (int first = rest; first < args.size; first += kStep) {
      float of_rest[kTogether];
      squares = AddElements(residual, add, first, args.size, of_rest, squares);
    }
    const float sum = BlockSum<kWarps>(squares, scratch);
    const float scale = 1.0f / sqrtf(sum / static_cast<float>(args.size) + args.eps);
    auto* out = reinterpret_cast<typename T::Element*>(args.out) + row * args.out_stride;
    StoreNormalized<T>(values, scale, weights, thread, args.size, out);
    for (int first = rest; first < args.size; first += kStep) {
      float of_rest[kTogether], weights_of_rest[kTogether];
      LoadStrided<kThreads>(residual, first, args.size, of_rest);
      LoadStrided<kThreads>(args.weight, first, args.size, weights_of_rest);
      StoreNormalized<T>(of_rest, scale, weights_of_rest, first, args.size, out);
    }
    SyncThreads();  // before the next row's sum takes the scratch
  }
}

template <int kHeld>
int Launch(const CudaContext& context, DType dtype, const AddRmsNormArgs& args) {
  return LaunchFor(dtype, context, {args.rows, kThreads, kWarps * sizeof(float)},
                   AddRmsNormKernel<F32, kHeld>, AddRmsNormKernel<Bf16, kHeld>,
                   AddRmsNormKernel<F16, kHeld>, args);
}

}  // namespace

int AddRmsNorm(const CudaContext& context, DType dtype, const AddRmsNormArgs& args) {
  if (args.rows == 0) return 0;
  if (args.size <= kFewHeld * kThreads) return Launch<kFewHeld>(context, dtype, args);
  return Launch<kManyHeld>(context, dtype, args);
}

}  // namespace aril::kernels::ARIL_CUDA_TARGET
