#include "kernels/gemm/paged_gemm_cuda.h"

#include "kernels/lora/shrink_tile_cuda.h"

namespace aril::kernels::ARIL_CUDA_TARGET {
namespace {

// As many as registers allow.
constexpr int kBlocksPerMultiprocessor = 3;

template <typename T>
ARIL_DEVICE void MultiplyItem(const PagedGemmArgs& args, const PagedGemmItem& item, float* tiles) {
  using Element = typename T::Element;
  const int thread = ThreadIdx(), group = thread % kWarpSize / 4;
  const auto* x = reinterpret_cast<const Element*>(args.x) + item.first_row * args.x_stride;
  const bool aligned =
      item.w_aligned16 != 0 && IsAligned16(x) && args.x_stride * sizeof(Element) % 16 == 0;
  const int num_chunks = (args.k + kLoraChunk - 1) / kLoraChunk;
  for (int first = 0; first < item.num_cols; first += kLoraRankTile) {
    const auto row_of = [&](int col) {
      return col < item.num_cols
                 ? reinterpret_cast<const Element*>(item.w + col * item.w_stride_bytes)
                 : nullptr;
    };
    Slice<RowsBehindOneAnother<Element>> slice = {
        {row_of(first + group), row_of(first + group + 8)},
        {x, args.x_stride},
        item.num_rows,
        0,
        args.k,
        aligned};
    float totals[kSlots] = {};
    ShrinkTile<T>(slice, 0, num_chunks, tiles, totals);
    const int col = first + thread % 16;
#pragma unroll
    for (int slot = 0; slot < kSlots; ++slot) {
      const int row = slot * 8 + thread / 16;
      if (row < item.num_rows && col < item.num_cols) {
        args.y[(item.first_row + row) * args.y_stride + item.first_col + col] = totals[slot];
      }
    }
  }
}

template <typename T>
ARIL_KERNEL(kThreads)
PagedGemmKernel(ARIL_PARAMETER PagedGemmArgs args) {
  const auto* items = reinterpret_cast<const PagedGemmItem*>(args.tables + 1);
  const int num_items = args.tables->num_items;
  float* tiles = SharedMemory<float>();
  for (int i = BlockIdx(); i < num_items; i += GridDim()) {
    const PagedGemmItem item = items[i];
    TrapUnless(item.num_rows <= kPagedGemmRows && item.first_row + item.num_rows <= args.rows,
               "rows that the product has");
    TrapUnless(item.first_col + item.num_cols <= args.n, "columns that the product has");
    MultiplyItem<T>(args, item, tiles);
  }
  FollowPreviousKernel();
}

}  // namespace

int PagedGemm(const CudaContext& context, DType dtype, const PagedGemmArgs& args) {
  const LaunchShape shape = {context.num_multiprocessors * kBlocksPerMultiprocessor, kThreads,
                             kShrinkTileBytes};
  return LaunchFor(dtype, context, shape, PagedGemmKernel<F32>, PagedGemmKernel<Bf16>,
                   PagedGemmKernel<F16>, args);
}

}  // namespace aril::kernels::ARIL_CUDA_TARGET
