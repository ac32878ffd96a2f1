// What every CPU kernel runs with: threads, the functions of one instruction set, and scratch
// memory.

#ifndef ARIL_KERNELS_CPU_CONTEXT_H_
#define ARIL_KERNELS_CPU_CONTEXT_H_

#include <cstddef>
#include <vector>

#include "base/checked.h"
#include "base/task_ranges.h"
#include "base/thread_pool.h"
#include "kernels/cpu/isa.h"
#include "tensor/buffer.h"

namespace aril::kernels {

struct CpuKernels;

// The functions compiled for `isa`, which must be one of AvailableIsas().
const CpuKernels& KernelsFor(Isa isa);

// Used by one thread at a time (the pool's workers run inside its calls).
class CpuContext {
 public:
  CpuContext(ThreadPool& threads, Isa isa)
      : threads_(&threads), tasks_(threads.num_threads()), isa_(isa), kernels_(&KernelsFor(isa)) {}

  ThreadPool& threads() const { return *threads_; }
  // For one kernel at a time.
  TaskRanges& tasks() { return tasks_; }
  Isa isa() const { return isa_; }
  const CpuKernels& kernels() const { return *kernels_; }

  // At least `size_bytes` of uninitialized memory, valid until the next call. Grows and never
  // shrinks: no allocation once the largest step has been seen.
  std::byte* Scratch(size_t size_bytes) {
    // In whole huge pages: operands that are meant to stay in L2 should share its sets evenly.
    if (scratch_.size_bytes() < size_bytes) scratch_ = Buffer(RoundUp(size_bytes, kHugePageBytes));
    return scratch_.data();
  }

 private:
  ThreadPool* threads_;
  TaskRanges tasks_;
  Isa isa_;
  const CpuKernels* kernels_;
  Buffer scratch_;
};

}  // namespace aril::kernels

#endif  // ARIL_KERNELS_CPU_CONTEXT_H_
