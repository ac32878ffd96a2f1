#include "kernels/experts/experts_cuda.h"

#include <math.h>

#include "kernels/cuda/elements.h"
#include "kernels/cuda/reduce.h"

namespace aril::kernels::ARIL_CUDA_TARGET {
namespace {

// --- Choosing: a warp for each row ---

constexpr int kChooseThreads = 128;
constexpr int kChooseRows = kChooseThreads / kWarpSize;  // of a block
// A lane's logits: of experts lane, lane + 32, …
constexpr int kLogitsOfLane = kMaxDeviceExperts / kWarpSize;

// The best so far, in a lane or of several. An expert of -1 is none.
struct Candidate {
  float logit;
  int expert;
};

// Of equal ones the first; of NaN nothing is better, and what is left of them comes last.
ARIL_DEVICE bool IsBetter(const Candidate& a, const Candidate& b) {
  if (a.expert < 0 || b.expert < 0) return a.expert >= 0;
  const bool a_is_number = a.logit == a.logit, b_is_number = b.logit == b.logit;
  if (a_is_number != b_is_number) return a_is_number;
  if (a_is_number && a.logit != b.logit) return a.logit > b.logit;
  return a.expert < b.expert;
}

// In all lanes. `taken`: bit by bit, a lane's experts that were chosen before.
ARIL_DEVICE Candidate FindBest(const float* logits, int experts, uint32_t taken) {
  const int lane = ThreadIdx() % kWarpSize;
  Candidate best = {0, -1};
  for (int i = 0; lane + i * kWarpSize < experts; ++i) {
    const Candidate other = {logits[lane + i * kWarpSize], lane + i * kWarpSize};
    if ((taken >> i & 1) == 0 && IsBetter(other, best)) best = other;
  }
#pragma unroll
  for (int mask = kWarpSize / 2; mask > 0; mask /= 2) {
    const Candidate other = {ShuffleXor(best.logit, mask), ShuffleXor(best.expert, mask)};
    if (IsBetter(other, best)) best = other;
  }
  return best;
}

// The sum of e^(logit - largest) over all experts.
ARIL_DEVICE float SumOfAll(const float* logits, int experts, float largest) {
  float sum = 0;
  for (int i = ThreadIdx() % kWarpSize; i < experts; i += kWarpSize) {
    sum += expf(logits[i] - largest);
  }
  return WarpSum(sum);
}

// `sorted` [per_row] in shared memory: of the warp.
ARIL_DEVICE void ChooseForRow(const ChooseExpertsArgs& args, int row, Candidate* sorted) {
  const int lane = ThreadIdx() % kWarpSize;
  const int of_row = row < *args.num_rows ? row : 0;
  const float* logits = args.logits + static_cast<int64_t>(of_row) * args.experts;
  static_assert(kLogitsOfLane <= 32);
  static_assert(kMaxDeviceExpertsPerRow <= kWarpSize);
  uint32_t taken = 0;
  Candidate mine = {0, args.experts};  // lane i: the one chosen as i-th
  float largest = 0;
  for (int i = 0; i < args.per_row; ++i) {
    const Candidate best = FindBest(logits, args.experts, taken);
    if (best.expert % kWarpSize == lane) taken |= 1U << best.expert / kWarpSize;
    if (i == lane) mine = best;
    if (i == 0) largest = best.logit;
  }
  // Each lane counts how many of the others come before its own.
  int place = 0;
  if (lane < args.per_row) sorted[lane] = mine;
  SyncWarp();
  for (int i = 0; i < args.per_row; ++i) place += sorted[i].expert < mine.expert ? 1 : 0;
  SyncWarp();
  if (lane < args.per_row) sorted[place] = mine;
  SyncWarp();
  float sum = 0;
  if (args.normalized) {
    for (int i = 0; i < args.per_row; ++i) sum += expf(sorted[i].logit - largest);
  } else {
    sum = SumOfAll(logits, args.experts, largest);
  }
  if (lane < args.per_row) {
    const int64_t at = static_cast<int64_t>(row) * args.per_row + lane;
    args.chosen[at] = sorted[lane].expert;
    args.weights[at] = expf(sorted[lane].logit - largest) / sum;
  }
}

ARIL_KERNEL(kChooseThreads)
ChooseExpertsKernel(ARIL_PARAMETER ChooseExpertsArgs args) {
  FollowPreviousKernel();
  const int warp = ThreadIdx() / kWarpSize, row = BlockIdx() * kChooseRows + warp;
  if (row >= args.rows) return;
  ChooseForRow(args, row, SharedMemory<Candidate>() + warp * kMaxDeviceExpertsPerRow);
}

// --- Places: a block for each expert ---

constexpr int kPlaceThreads = 256;

// What a row's experts mean for one of them.
struct RowOfExpert {
  int before = 0;  // how many come before it
  bool has = false;
};
ARIL_DEVICE RowOfExpert FindInRow(const PlaceRowsArgs& args, int row, int expert) {
  RowOfExpert found;
  if (row >= args.rows) return found;
  const int32_t* chosen = args.chosen + static_cast<int64_t>(row) * args.per_row;
  for (int i = 0; i < args.per_row; ++i) {
    found.before += chosen[i] < expert ? 1 : 0;
    found.has = found.has || chosen[i] == expert;
  }
  return found;
}

// Every block looks through all rows: it needs no other's result, and the order is the rows'.
ARIL_KERNEL(kPlaceThreads)
PlaceRowsKernel(ARIL_PARAMETER PlaceRowsArgs args) {
  FollowPreviousKernel();
  int* const scratch = SharedMemory<int>();
  const int thread = ThreadIdx(), expert = BlockIdx();
  int before = 0;
  for (int row = thread; row < args.rows; row += kPlaceThreads) {
    before += FindInRow(args, row, expert).before;
  }
  BlockPrefix<kPlaceThreads>(before, scratch);
  int next = scratch[kPlaceThreads - 1];
  SyncThreads();
  if (thread == 0) {
    args.first_places[expert] = next;
    if (expert == 0) args.first_places[args.experts] = args.rows * args.per_row;
  }
  for (int first = 0; first < args.rows; first += kPlaceThreads) {
    const int row = first + thread;
    const RowOfExpert found = FindInRow(args, row, expert);
    const int up_to = BlockPrefix<kPlaceThreads>(found.has ? 1 : 0, scratch);
    if (found.has) {
      const int place = next + up_to - 1;
      args.place_rows[place] = row;
      args.places[static_cast<int64_t>(row) * args.per_row + found.before] = place;
    }
    next += scratch[kPlaceThreads - 1];
    SyncThreads();
  }
}

// --- Sums ---

constexpr int kAddThreads = 256;
// Elements of a thread: loads enough to hide one another's latency.
constexpr int kTogether = 4;
constexpr int kBlockElements = kTogether * kAddThreads;  // of a row

ARIL_KERNEL(kAddThreads)
AddExpertsKernel(ARIL_PARAMETER AddExpertsArgs args) {
  FollowPreviousKernel();
  const int blocks_per_row = (args.size + kBlockElements - 1) / kBlockElements;
  const int64_t row = BlockIdx() / blocks_per_row;
  const int first = BlockIdx() % blocks_per_row * kBlockElements + ThreadIdx();
  float sums[kTogether] = {};
  for (int64_t i = row * args.per_row; i < (row + 1) * args.per_row; ++i) {
    float values[kTogether];
    LoadStrided<kAddThreads>(args.y + static_cast<int64_t>(args.places[i]) * args.size, first,
                             args.size, values);
    const float weight = args.weights[i];
#pragma unroll
    for (int k = 0; k < kTogether; ++k) sums[k] = MultiplyAdd(weight, values[k], sums[k]);
  }
#pragma unroll
  for (int k = 0; k < kTogether; ++k) {
    const int col = first + k * kAddThreads;
    if (col < args.size) args.out[row * args.size + col] = sums[k];
  }
}

}  // namespace

int ChooseExperts(const CudaContext& context, const ChooseExpertsArgs& args) {
  if (args.rows == 0) return 0;
  constexpr size_t kSharedBytes = sizeof(Candidate) * kChooseRows * kMaxDeviceExpertsPerRow;
  return LaunchKernel(context,
                      {(args.rows + kChooseRows - 1) / kChooseRows, kChooseThreads, kSharedBytes},
                      ChooseExpertsKernel, args);
}

int PlaceRows(const CudaContext& context, const PlaceRowsArgs& args) {
  return LaunchKernel(context, {args.experts, kPlaceThreads, kPlaceThreads * sizeof(int)},
                      PlaceRowsKernel, args);
}

int AddExperts(const CudaContext& context, const AddExpertsArgs& args) {
  if (args.rows == 0) return 0;
  const int blocks_per_row = (args.size + kBlockElements - 1) / kBlockElements;
  return LaunchKernel(context, {args.rows * blocks_per_row, kAddThreads, 0}, AddExpertsKernel,
                      args);
}

}  // namespace aril::kernels::ARIL_CUDA_TARGET
