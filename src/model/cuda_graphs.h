// Graphs of steps: a captured launch costs less than one that is made anew.

#ifndef ARIL_MODEL_CUDA_GRAPHS_H_
#define ARIL_MODEL_CUDA_GRAPHS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include "base/status.h"
#include "kernels/cuda/cuda_device.h"
#include "model/cuda_step.h"

namespace aril {

// Of the shapes that were used last. The first step of a shape is launched as it is, which chooses
// the algorithms of its products; the second is captured, and what was captured runs the others.
// Where the device has no memory for that, steps are launched one by one. Used by one thread.
class CudaGraphs {
 public:
  // The device must outlive this.
  explicit CudaGraphs(kernels::CudaDevice& device);

  // Puts into the stream what `operators` puts there, which must depend on the rounded `shape`
  // alone.
  Status Run(const CudaStepShape& shape, const std::function<Status()>& operators);

  int64_t num_replays() const { return num_replays_; }

 private:
  struct Graph {
    std::unique_ptr<kernels::CudaGraph> captured;  // null before the second step
    int64_t last_use = 0;                          // in calls of Run
  };

  // Both wait for the stream, which may be running what goes.
  Status ForgetOldest();
  Status GiveUp(const Status& why);

  kernels::CudaDevice& device_;
  std::map<CudaStepShape, Graph> graphs_;
  size_t max_graphs_;
  int64_t num_calls_ = 0;
  int64_t num_replays_ = 0;
};

}  // namespace aril

#endif  // ARIL_MODEL_CUDA_GRAPHS_H_
