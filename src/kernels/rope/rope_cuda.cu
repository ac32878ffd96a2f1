// One warp for each head of each row. A lane holds elements i and i + head_dim / 2 of its pairs, so
// that nothing is exchanged but the sum of squares of a norm.

#include <math.h>

#include "kernels/cuda/elements.h"
#include "kernels/cuda/reduce.h"
#include "kernels/rope/rope_cuda.h"

namespace aril::kernels::ARIL_CUDA_TARGET {
namespace {

constexpr int kThreads = 128;
constexpr int kWarps = kThreads / kWarpSize;
constexpr int kMaxPairs = 128 / kWarpSize;  // of a lane, for a head_dim of 256

// A head's elements in the lanes' registers: first[p] is element lane + 32 p, second[p] the one
// half a head later.
struct Head {
  float first[kMaxPairs];
  float second[kMaxPairs];
};

ARIL_DEVICE void Normalize(const float* weight, float eps, int head_dim, Head& head) {
  const int lane = ThreadIdx() % kWarpSize, half = head_dim / 2;
  float squares = 0;
#pragma unroll
  for (int p = 0; p < kMaxPairs; ++p) {
    squares = MultiplyAdd(head.first[p], head.first[p], squares);
    squares = MultiplyAdd(head.second[p], head.second[p], squares);
  }
  const float scale = 1.0f / sqrtf(WarpSum(squares) / static_cast<float>(head_dim) + eps);
#pragma unroll
  for (int p = 0; p < kMaxPairs; ++p) {
    const int i = lane + p * kWarpSize;
    if (i >= half) continue;
    head.first[p] = head.first[p] * scale * weight[i];
    head.second[p] = head.second[p] * scale * weight[half + i];
  }
}

ARIL_DEVICE void Rotate(const float* cos, const float* sin, int half, Head& head) {
#pragma unroll
  for (int p = 0; p < kMaxPairs; ++p) {
    const int i = ThreadIdx() % kWarpSize + p * kWarpSize;
    if (i >= half) continue;
    const float a = head.first[p], b = head.second[p];
    head.first[p] = a * cos[i] - b * sin[i];
    head.second[p] = b * cos[i] + a * sin[i];
  }
}

// Where head `h` of a row goes: to q, or to its place in the page.
template <typename Element>
ARIL_DEVICE Element* Destination(const RopeAppendArgs& args, int row, int h, const KvRow& at) {
  const KvLayer& layer = args.layer;
  if (h < args.num_heads) {
    return reinterpret_cast<Element*>(args.q) + row * args.q_stride + h * layer.head_dim;
  }
  const int kv = h - args.num_heads;
  const bool is_key = kv < layer.num_kv_heads;
  std::byte* page = at.pages[at.position / layer.page_tokens];
  std::byte* block =
      page + (is_key ? layer.key_offset + kv * layer.block_bytes
                     : layer.value_offset + (kv - layer.num_kv_heads) * layer.block_bytes);
  return reinterpret_cast<Element*>(block) + at.position % layer.page_tokens * layer.head_dim;
}

template <typename T>
ARIL_KERNEL(kThreads)
RopeAppendKernel(ARIL_PARAMETER RopeAppendArgs args) {
  FollowPreviousKernel();
  const int heads = args.num_heads + 2 * args.layer.num_kv_heads;
  const int64_t index = static_cast<int64_t>(BlockIdx()) * kWarps + ThreadIdx() / kWarpSize;
  if (index >= static_cast<int64_t>(args.rows) * heads) return;  // the whole warp
  const int row = static_cast<int>(index / heads), h = static_cast<int>(index % heads);
  const KvRow at = args.sequence_rows[row];
  if (at.pages == nullptr) return;
  const int lane = ThreadIdx() % kWarpSize, half = args.layer.head_dim / 2;
  const float* in = args.qkv + row * args.qkv_stride + h * args.layer.head_dim;
  Head head = {};
#pragma unroll
  for (int p = 0; p < kMaxPairs; ++p) {
    const int i = lane + p * kWarpSize;
    if (i < half) {
      head.first[p] = in[i];
      head.second[p] = in[half + i];
    }
  }
  const bool is_value = h >= args.num_heads + args.layer.num_kv_heads;
  const float* norm = is_value ? nullptr : h < args.num_heads ? args.q_norm : args.k_norm;
  if (norm != nullptr) Normalize(norm, args.norm_eps, args.layer.head_dim, head);
  if (!is_value) Rotate(args.cos + at.position * half, args.sin + at.position * half, half, head);
  auto* out = Destination<typename T::Element>(args, row, h, at);
#pragma unroll
  for (int p = 0; p < kMaxPairs; ++p) {
    const int i = lane + p * kWarpSize;
    if (i < half) {
      out[i] = T::Narrow(head.first[p]);
      out[half + i] = T::Narrow(head.second[p]);
    }
  }
}

}  // namespace

int RopeAppend(const CudaContext& context, DType dtype, const RopeAppendArgs& args) {
  if (args.rows == 0) return 0;
  const int warps = args.rows * (args.num_heads + 2 * args.layer.num_kv_heads);
  return LaunchFor(dtype, context, {(warps + kWarps - 1) / kWarps, kThreads, 0},
                   RopeAppendKernel<F32>, RopeAppendKernel<Bf16>, RopeAppendKernel<F16>, args);
}

}  // namespace aril::kernels::ARIL_CUDA_TARGET
