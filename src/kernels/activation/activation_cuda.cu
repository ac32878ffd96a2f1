#include <math.h>

#include "kernels/activation/activation_cuda.h"
#include "kernels/cuda/elements.h"

namespace aril::kernels::ARIL_CUDA_TARGET {
namespace {

constexpr int kThreads = 256;
// Elements of a thread: loads enough to hide one another's latency.
constexpr int kTogether = 4;
constexpr int kBlockElements = kTogether * kThreads;  // of a row

// Where a block's elements lie: in a row, from this thread's first on.
struct Place {
  int row;
  int first;
};

int BlocksPerRow(int size) { return (size + kBlockElements - 1) / kBlockElements; }

ARIL_DEVICE Place PlaceOf(int size) {
  const int blocks_per_row = (size + kBlockElements - 1) / kBlockElements;
  return {BlockIdx() / blocks_per_row, BlockIdx() % blocks_per_row * kBlockElements + ThreadIdx()};
}

struct SiluOf {
  ARIL_DEVICE static float Apply(float gate, float up) { return gate / (1.0f + expf(-gate)) * up; }
};

// (1 + tanh u) / 2 is 1 / (1 + e^-2u).
struct GeluTanhOf {
  ARIL_DEVICE static float Apply(float gate, float up) {
    const float cubic = MultiplyAdd(gate * gate * gate, 0.044715f, gate);
    return gate / (1.0f + expf(cubic * -1.5957691216057308f)) * up;  // -2 √(2/π)
  }
};

// What is no number stays so: it is not more than the limit.
struct ClampedSwigluOf {
  ARIL_DEVICE static float Apply(float gate, float up) {
    const float x = gate > kSwigluLimit ? kSwigluLimit : gate;
    const float below = up > kSwigluLimit ? kSwigluLimit : up;
    const float y = below < -kSwigluLimit ? -kSwigluLimit : below;
    return x / (1.0f + expf(x * -kSwigluAlpha)) * (y + 1.0f);
  }
};

template <typename T, typename F>
ARIL_KERNEL(kThreads)
GluKernel(ARIL_PARAMETER GluArgs args) {
  FollowPreviousKernel();
  const auto [row, first] = PlaceOf(args.size);
  const float* in = args.gate_up + row * args.gate_up_stride;
  float gate[kTogether], up[kTogether];
  LoadStrided<kThreads>(in, first, args.size, gate);
  LoadStrided<kThreads>(in + args.size, first, args.size, up);
  auto* out = reinterpret_cast<typename T::Element*>(args.out) + row * args.out_stride;
#pragma unroll
  for (int k = 0; k < kTogether; ++k) {
    const int i = first + k * kThreads;
    if (i < args.size) out[i] = T::Narrow(F::Apply(gate[k], up[k]));
  }
}

ARIL_KERNEL(kThreads)
SoftcapKernel(ARIL_PARAMETER SoftcapArgs args) {
  FollowPreviousKernel();
  const auto [row, first] = PlaceOf(args.size);
  float* values = args.values + row * args.stride;
  float of_thread[kTogether];
  LoadStrided<kThreads>(values, first, args.size, of_thread);
#pragma unroll
  for (int k = 0; k < kTogether; ++k) {
    const int i = first + k * kThreads;
    if (i < args.size) values[i] = args.cap * tanhf(of_thread[k] / args.cap);
  }
}

template <typename T>
ARIL_KERNEL(kThreads)
GateHeadsKernel(ARIL_PARAMETER GateHeadsArgs args) {
  FollowPreviousKernel();
  const int size = args.num_heads * args.head_dim;
  const auto [row, first] = PlaceOf(size);
  const float* gated = args.gated + row * args.gated_stride;
  auto* values = reinterpret_cast<typename T::Element*>(args.values) + row * args.values_stride;
#pragma unroll
  for (int k = 0; k < kTogether; ++k) {
    const int i = first + k * kThreads;
    if (i >= size) continue;
    const float gate = gated[(2 * (i / args.head_dim) + 1) * args.head_dim + i % args.head_dim];
    values[i] = T::Narrow(T::Widen(values[i]) / (1.0f + expf(-gate)));
  }
}

template <typename F>
int Launch(const CudaContext& context, DType dtype, const GluArgs& args) {
  return LaunchFor(dtype, context, {args.rows * BlocksPerRow(args.size), kThreads, 0},
                   GluKernel<F32, F>, GluKernel<Bf16, F>, GluKernel<F16, F>, args);
}

}  // namespace

int Glu(const CudaContext& context, DType dtype, const GluArgs& args) {
  if (args.rows == 0) return 0;
  switch (args.f) {
    case Activation::kSilu:
      return Launch<SiluOf>(context, dtype, args);
    case Activation::kGeluTanh:
      return Launch<GeluTanhOf>(context, dtype, args);
    case Activation::kClampedSwiglu:
      return Launch<ClampedSwigluOf>(context, dtype, args);
  }
  return 0;
}

int Softcap(const CudaContext& context, const SoftcapArgs& args) {
  if (args.rows == 0) return 0;
  return LaunchKernel(context, {args.rows * BlocksPerRow(args.size), kThreads, 0}, SoftcapKernel,
                      args);
}

int GateHeads(const CudaContext& context, DType dtype, const GateHeadsArgs& args) {
  if (args.rows == 0) return 0;
  const int blocks = args.rows * BlocksPerRow(args.num_heads * args.head_dim);
  return LaunchFor(dtype, context, {blocks, kThreads, 0}, GateHeadsKernel<F32>,
                   GateHeadsKernel<Bf16>, GateHeadsKernel<F16>, args);
}

}  // namespace aril::kernels::ARIL_CUDA_TARGET
