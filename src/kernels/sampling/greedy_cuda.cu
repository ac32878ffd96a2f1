#include "kernels/cuda/device.h"
#include "kernels/sampling/greedy_cuda.h"

namespace aril::kernels::ARIL_CUDA_TARGET {
namespace {

constexpr int kThreads = 512;
constexpr int kWarps = kThreads / kWarpSize;
constexpr float kInfinity = __builtin_inff();

// The best of some tokens, and whether all of them can be compared. One that is -inf cannot be
// chosen.
struct Best {
  float logit;
  int32_t token;    // -1: none
  int32_t invalid;  // not 0: a NaN or +inf was among them
};

ARIL_DEVICE Best Better(const Best& a, const Best& b) {
  const bool first =
      b.token < 0 ||
      (a.token >= 0 && (a.logit > b.logit || (a.logit == b.logit && a.token < b.token)));
  Best best = first ? a : b;
  best.invalid = a.invalid | b.invalid;
  return best;
}

ARIL_DEVICE Best OfWarp(Best best) {
#pragma unroll
  for (int mask = kWarpSize / 2; mask > 0; mask /= 2) {
    const Best other = {ShuffleXor(best.logit, mask), ShuffleXor(best.token, mask),
                        ShuffleXor(best.invalid, mask)};
    best = Better(best, other);
  }
  return best;
}

// One block for each row.
ARIL_KERNEL(kThreads)
GreedyKernel(ARIL_PARAMETER GreedyArgs args) {
  FollowPreviousKernel();
  Best* of_warps = SharedMemory<Best>();
  const float* logits = args.logits + BlockIdx() * args.stride;
  Best best = {-kInfinity, -1, 0};
  for (int i = ThreadIdx(); i < args.vocab; i += kThreads) {
    const float logit = logits[i];
    if (!(logit < kInfinity)) best.invalid = 1;  // NaN, too
    // Ids rise: an equal one later does not replace this.
    if (logit > best.logit) best = {logit, i, best.invalid};
  }
  best = OfWarp(best);
  if (ThreadIdx() % kWarpSize == 0) of_warps[ThreadIdx() / kWarpSize] = best;
  SyncThreads();
  if (ThreadIdx() != 0) return;
  for (int w = 1; w < kWarps; ++w) best = Better(best, of_warps[w]);
  args.tokens[BlockIdx()] = best.invalid != 0 ? -1 : best.token;
}

}  // namespace

int Greedy(const CudaContext& context, const GreedyArgs& args) {
  if (args.rows == 0) return 0;
  return LaunchKernel(context, {args.rows, kThreads, kWarps * sizeof(Best)}, GreedyKernel, args);
}

}  // namespace aril::kernels::ARIL_CUDA_TARGET
