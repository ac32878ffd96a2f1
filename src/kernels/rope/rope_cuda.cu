// One warp for each head of each row. A lane holds both elements of its pairs, so that nothing is
// exchanged but the sum of squares of a norm.

#include <math.h>

#include "kernels/cuda/elements.h"
#include "kernels/cuda/reduce.h"
#include "kernels/rope/rope_cuda.h"

namespace aril::kernels::ARIL_CUDA_TARGET {
namespace {

constexpr int kThreads = 128;
constexpr int kWarps = kThreads / kWarpSize;
constexpr int kMaxPairs = 128 / kWarpSize;  // of a lane, for a head_dim of 256

// A head's elements in the lanes' registers, those of pair lane + 32 p in first[p] and second[p].
struct Head {
  float first[kMaxPairs];
  float second[kMaxPairs];
};

// Where pair i's elements are: the first num_pairs are rotated, i with i + num_pairs; what lies
// behind those is in pairs, too, which are not.
struct Pairs {
  int half;       // of head_dim
  int num_pairs;  // that are rotated

  ARIL_DEVICE int First(int i) const { return i < num_pairs ? i : num_pairs + i; }
  ARIL_DEVICE int Second(int i) const { return (i < num_pairs ? num_pairs : half) + i; }
};

ARIL_DEVICE void Normalize(const float* weight, float eps, const Pairs& pairs, Head& head) {
  const int lane = ThreadIdx() % kWarpSize;
  float squares = 0;
#pragma unroll
  for (int p = 0; p < kMaxPairs; ++p) {
    squares = MultiplyAdd(head.first[p], head.first[p], squares);
    squares = MultiplyAdd(head.second[p], head.second[p], squares);
  }
  const float scale = 1.0f / sqrtf(WarpSum(squares) / static_cast<float>(2 * pairs.half) + eps);
#pragma unroll
  for (int p = 0; p < kMaxPairs; ++p) {
    const int i = lane + p * kWarpSize;
    if (i >= pairs.half) continue;
    head.first[p] = head.first[p] * scale * weight[pairs.First(i)];
    head.second[p] = head.second[p] * scale * weight[pairs.Second(i)];
  }
}

ARIL_DEVICE void Rotate(const float* cos, const float* sin, int num_pairs, Head& head) {
#pragma unroll
  for (int p = 0; p < kMaxPairs; ++p) {
    const int i = ThreadIdx() % kWarpSize + p * kWarpSize;
    if (i >= num_pairs) continue;
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
  const int lane = ThreadIdx() % kWarpSize;
  const Pairs pairs = {args.layer.head_dim / 2, args.num_pairs};
  const int num_gates = !args.gated_queries ? 0 : h < args.num_heads ? h : args.num_heads;
  const float* in = args.qkv + row * args.qkv_stride + (h + num_gates) * args.layer.head_dim;
  Head head = {};
#pragma unroll
  for (int p = 0; p < kMaxPairs; ++p) {
    const int i = lane + p * kWarpSize;
    if (i < pairs.half) {
      head.first[p] = in[pairs.First(i)];
      head.second[p] = in[pairs.Second(i)];
    }
  }
  const bool is_value = h >= args.num_heads + args.layer.num_kv_heads;
  const float* norm = is_value ? nullptr : h < args.num_heads ? args.q_norm : args.k_norm;
  if (norm != nullptr) Normalize(norm, args.norm_eps, pairs, head);
  if (!is_value) {
    const int64_t first = static_cast<int64_t>(at.position) * args.num_pairs;
    Rotate(args.cos + first, args.sin + first, args.num_pairs, head);
  }
  auto* out = Destination<typename T::Element>(args, row, h, at);
#pragma unroll
  for (int p = 0; p < kMaxPairs; ++p) {
    const int i = lane + p * kWarpSize;
    if (i < pairs.half) {
      out[pairs.First(i)] = T::Narrow(head.first[p]);
      out[pairs.Second(i)] = T::Narrow(head.second[p]);
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
