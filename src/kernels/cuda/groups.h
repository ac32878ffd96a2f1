// Which of several groups, whose sizes only the device knows, the i-th piece of work belongs to.
// Only .cu files include this.

#ifndef ARIL_KERNELS_CUDA_GROUPS_H_
#define ARIL_KERNELS_CUDA_GROUPS_H_

#include "kernels/cuda/reduce.h"

namespace aril::kernels::ARIL_CUDA_TARGET {

// ends[g] = pieces of groups 0 … g, in shared memory. `count_of(g)` is the number of those of a
// group. `scratch` [kThreads]. All threads of a block of kThreads take part.
template <int kThreads, typename CountOf>
ARIL_DEVICE void CountPieces(int groups, const CountOf& count_of, int* scratch, int* ends) {
  int before = 0;
  for (int first = 0; first < groups; first += kThreads) {
    const int group = first + ThreadIdx();
    const bool exists = group < groups;
    const int sum = BlockPrefix<kThreads>(exists ? count_of(group) : 0, scratch);
    if (exists) ends[group] = before + sum;
    before += scratch[kThreads - 1];
    SyncThreads();
  }
}

// A piece: the group, and the number of the piece in it.
struct PieceOfGroup {
  int group;
  int piece;
};
ARIL_DEVICE PieceOfGroup FindPiece(const int* ends, int groups, int index) {
  int low = 0, high = groups - 1;
  while (low < high) {
    const int middle = (low + high) / 2;
    if (ends[middle] > index) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return {low, index - (low == 0 ? 0 : ends[low - 1])};
}

}  // namespace aril::kernels::ARIL_CUDA_TARGET

#endif  // ARIL_KERNELS_CUDA_GROUPS_H_
