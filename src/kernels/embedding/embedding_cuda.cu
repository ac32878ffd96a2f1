#include "kernels/embedding/embedding_cuda.h"

#include "kernels/cuda/elements.h"
#include "kernels/lora/matrix_rows_cuda.h"

namespace aril::kernels::ARIL_CUDA_TARGET {
namespace {

constexpr int kThreads = 256;
constexpr int kTogether = 4;  // elements that a thread loads before it stores one
constexpr int kShrinkBlocksPerMultiprocessor = 4;

// One block for each row.
template <typename T>
ARIL_KERNEL(kThreads)
EmbedKernel(ARIL_PARAMETER EmbedArgs args) {
  FollowPreviousKernel();
  const int row = BlockIdx();
  using Element = typename T::Element;
  const int token = args.tokens[row];
  const LoraDeviceMatrix* own = args.own == nullptr ? nullptr : args.own[row];
  const Element* from = own != nullptr ? RowOfToken<Element>(*own, token)
                                       : reinterpret_cast<const Element*>(args.table) +
                                             static_cast<int64_t>(token) * args.size;
  float* out = args.out + row * args.out_stride;
  if (own == nullptr && token >= args.vocab) {
    for (int i = ThreadIdx(); i < args.size; i += kThreads) out[i] = 0;
    return;
  }
  for (int first = ThreadIdx(); first < args.size; first += kTogether * kThreads) {
    Element elements[kTogether];
    LoadStrided<kThreads>(from, first, args.size, elements);
#pragma unroll
    for (int k = 0; k < kTogether; ++k) {
      const int i = first + k * kThreads;
      if (i < args.size) out[i] = T::Widen(elements[k]) * args.scale;
    }
  }
}

// A thread for each element of an item's V.
template <typename T>
ARIL_KERNEL(kThreads)
EmbedShrinkKernel(ARIL_PARAMETER EmbedShrinkArgs args) {
  FollowPreviousKernel();
  const auto* items = reinterpret_cast<const LoraShrinkItem*>(args.tables + 1);
  const int num_items = args.tables->num_shrink_items;
  for (int i = BlockIdx(); i < num_items; i += GridDim()) {
    const LoraShrinkItem item = items[i];
    const int rank = item.weights->rank;
    TrapUnless(rank <= item.v_stride, "a rank of at most the plan's");
    for (int k = ThreadIdx(); k < item.num_rows * kLoraRankTile; k += kThreads) {
      const int row = k / kLoraRankTile, j = item.first_rank + k % kLoraRankTile;
      if (j >= rank) continue;
      const auto* from =
          RowOfToken<typename T::Element>(item.weights->a, args.tokens[item.first_row + row]);
      args.v[item.v_offset + static_cast<int64_t>(row) * item.v_stride + j] =
          T::Widen(from[j]) * args.scale;
    }
  }
}

}  // namespace

int Embed(const CudaContext& context, DType dtype, const EmbedArgs& args) {
  if (args.rows == 0) return 0;
  return LaunchFor(dtype, context, {args.rows, kThreads, 0}, EmbedKernel<F32>, EmbedKernel<Bf16>,
                   EmbedKernel<F16>, args);
}

int EmbedShrink(const CudaContext& context, DType dtype, const EmbedShrinkArgs& args) {
  const LaunchShape shape = {context.num_multiprocessors * kShrinkBlocksPerMultiprocessor, kThreads,
                             0};
  return LaunchFor(dtype, context, shape, EmbedShrinkKernel<F32>, EmbedShrinkKernel<Bf16>,
                   EmbedShrinkKernel<F16>, args);
}

}  // namespace aril::kernels::ARIL_CUDA_TARGET
