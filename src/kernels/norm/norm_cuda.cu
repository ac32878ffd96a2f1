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

// How what is added is normed: by nothing, or by weights and one factor of the row.
struct AddAsItIs {
  template <int kCount>
  ARIL_DEVICE void Apply(int, int, float (&)[kCount]) const {}
};

struct AddNormed {
  const float* weight;
  float scale;

  template <int kCount>
  ARIL_DEVICE void Apply(int first, int size, float (&added)[kCount]) const {
    float weights[kCount];
    LoadStrided<kThreads>(weight, first, size, weights);
#pragma unroll
    for (int k = 0; k < kCount; ++k) added[k] = added[k] * scale * weights[k];
  }
};

// Adds a thread's elements first, first + kThreads, … of `add`, unless that is null, to those of
// the residual, which are left in `values`. Returns `squares` with theirs added in order.
template <int kCount, typename Norm>
ARIL_DEVICE float AddElements(float* residual, const float* add, const Norm& norm, int first,
                              int size, float (&values)[kCount], float squares) {
  float added[kCount] = {};
  LoadStrided<kThreads>(residual, first, size, values);
  if (add != nullptr) {
    LoadStrided<kThreads>(add, first, size, added);
    norm.Apply(first, size, added);
  }
#pragma unroll
  for (int k = 0; k < kCount; ++k) {
    const int i = first + k * kThreads;
    if (i >= size) continue;
    if (add != nullptr) residual[i] = values[k] += added[k];
    squares = MultiplyAdd(values[k], values[k], squares);
  }
  return squares;
}

ARIL_DEVICE float InverseRms(float squares, int size, float eps, float* scratch) {
  const float sum = BlockSum<kWarps>(squares, scratch);
  return 1.0f / sqrtf(sum / static_cast<float>(size) + eps);
}

// The factor by which a row that is to be added is normed. What it reads comes from the L1 when it
// is added.
ARIL_DEVICE float InverseRmsOf(const float* row, int size, float eps, float* scratch) {
  float squares = 0;
  for (int first = ThreadIdx(); first < size; first += kStep) {
    float values[kTogether];
    LoadStrided<kThreads>(row, first, size, values);
#pragma unroll
    for (int k = 0; k < kTogether; ++k) {
      if (first + k * kThreads < size) squares = MultiplyAdd(values[k], values[k], squares);
    }
  }
  const float scale = InverseRms(squares, size, eps, scratch);
  SyncThreads();  // before the next sum takes the scratch
  return scale;
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

template <typename T, int kHeld, typename Norm>
ARIL_DEVICE void AddAndNormalize(const AddRmsNormArgs& args, const float (&weights)[kHeld], int row,
                                 const Norm& norm, float* scratch) {
  const int thread = ThreadIdx();
  const int rest = thread + kHeld * kThreads;
  float* residual = args.residual + row * args.residual_stride;
  const float* add = args.add == nullptr ? nullptr : args.add + row * args.add_stride;
  float values[kHeld];
  float squares = AddElements(residual, add, norm, thread, args.size, values, 0.0f);
  for (int first = rest; first < args.size; first += kStep) {
    float of_rest[kTogether];
    squares = AddElements(residual, add, norm, first, args.size, of_rest, squares);
  }
  const float scale = InverseRms(squares, args.size, args.eps, scratch);
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

template <typename T, int kHeld, bool kNormsAdd>
ARIL_KERNEL(kThreads, 2)
AddRmsNormKernel(ARIL_PARAMETER AddRmsNormArgs args) {
  // No kernel writes them: they come while the one before this one still runs.
  float weights[kHeld];
  LoadStrided<kThreads>(args.weight, ThreadIdx(), args.size, weights);
  FollowPreviousKernel();
  float* scratch = SharedMemory<float>();
  for (int row = BlockIdx(); row < args.rows; row += GridDim()) {
    if constexpr (kNormsAdd) {
      const float* add = args.add + row * args.add_stride;
      const AddNormed norm{args.add_weight, InverseRmsOf(add, args.size, args.eps, scratch)};
      AddAndNormalize<T>(args, weights, row, norm, scratch);
    } else {
      AddAndNormalize<T>(args, weights, row, AddAsItIs(), scratch);
    }
  }
}

template <int kHeld, bool kNormsAdd>
int Launch(const CudaContext& context, DType dtype, const AddRmsNormArgs& args) {
  return LaunchFor(dtype, context, {args.rows, kThreads, kWarps * sizeof(float)},
                   AddRmsNormKernel<F32, kHeld, kNormsAdd>,
                   AddRmsNormKernel<Bf16, kHeld, kNormsAdd>,
                   AddRmsNormKernel<F16, kHeld, kNormsAdd>, args);
}

}  // namespace

int AddRmsNorm(const CudaContext& context, DType dtype, const AddRmsNormArgs& args) {
  if (args.rows == 0) return 0;
  // Two more numbers for each element have no room beside many.
  if (args.add != nullptr && args.add_weight != nullptr) {
    return Launch<kFewHeld, true>(context, dtype, args);
  }
  if (args.size <= kFewHeld * kThreads) return Launch<kFewHeld, false>(context, dtype, args);
  return Launch<kManyHeld, false>(context, dtype, args);
}

}  // namespace aril::kernels::ARIL_CUDA_TARGET
