// `aril bench kernels --device cuda`: kernels against what the GPU can do at best.

#ifndef ARIL_APPS_BENCH_CUDA_KERNELS_H_
#define ARIL_APPS_BENCH_CUDA_KERNELS_H_

#include <ostream>

#include "apps/bench_kernels.h"
#include "base/status.h"

namespace aril {

// As BenchKernels; the limit is the bandwidth of copies, and the rate of large products. A case's
// result is checked first. Then kCudaCalls calls, each with cold operands of its own, are captured
// in a graph; a pass's time is the median of some replays between events, divided by their number,
// each after a copy that empties the L2. Beside it, in the same run: the time of as many kernels
// that do nothing. Unavailable without a GPU.
Status BenchCudaKernels(const BenchKernelsOptions& options, std::ostream& out);

}  // namespace aril

#endif  // ARIL_APPS_BENCH_CUDA_KERNELS_H_
