#include "kernels/embedding/embedding_cuda.h"

#include "kernels/cuda/elements.h"

namespace aril::kernels::ARIL_CUDA_TARGET {
namespace {

constexpr int kThreads = 256;
constexpr int kTogether = 4;  // elements that a thread loads before it stores one

// One block for each row.
template <typename T>
ARIL_KERNEL(kThreads)
EmbedKernel(ARIL_PARAMETER EmbedArgs args) {
  WaitForPreviousKernel();
  LetNextKernelStart();
  const int row = BlockIdx();
  using Element = typename T::Element;
  const auto* from = reinterpret_cast<const Element*>(args.table) +
                     static_cast<int64_t>(args.tokens[row]) * args.size;
  float* out = args.out + row * args.out_stride;
  for (int first = ThreadIdx(); first < args.size; first += kTogether * kThreads) {
    Element elements[kTogether];
    LoadStrided<kThreads>(from, first, args.size, elements);
#pragma unroll
    for (int k = 0; k < kTogether; ++k) {
      const int i = first + k * kThreads;
      if (i < args.size) out[i] = T::Widen(elements[k]);
    }
  }
}

}  // namespace

int Embed(const CudaContext& context, DType dtype, const EmbedArgs& args) {
  if (args.rows == 0) return 0;
  return LaunchFor(dtype, context, {args.rows, kThreads, 0}, EmbedKernel<F32>, EmbedKernel<Bf16>,
                   EmbedKernel<F16>, args);
}

}  // namespace aril::kernels::ARIL_CUDA_TARGET
