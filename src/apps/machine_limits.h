// What this machine can do at best: the figures that every other benchmark is a ratio to.

#ifndef ARIL_APPS_MACHINE_LIMITS_H_
#define ARIL_APPS_MACHINE_LIMITS_H_

#include <cstddef>

#include "base/clock.h"
#include "base/json.h"
#include "kernels/cpu/context.h"
#include "kernels/gemm/weight_format.h"
#include "kernels/probe/probe.h"
#include "tensor/buffer.h"

namespace aril {

struct MachineLimits {
  int threads = 0;
  double read_bytes_per_s = 0;
  // Multiplications and additions per second; 0 where the instruction set has none of the kind.
  double f32_per_s = 0;
  double bf16_per_s = 0;
  double int8_per_s = 0;

  // Of a product with such weights, those of four bits as of bytes, codes as BF16. Where
  // there is no instruction for it, it is done with the next wider one.
  double product_per_s(kernels::WeightFormat format) const;
  Json ToJson() const;
};

// Measures with the threads and the instruction set of `context`, which must outlive it, as must
// the clock.
class MachineProbe {
 public:
  static constexpr size_t kMemoryBytes = size_t{1} << 30;

  // `memory_bytes`: a multiple of 64 MiB, and several times the last-level cache.
  MachineProbe(kernels::CpuContext& context, const Clock& clock,
               size_t memory_bytes = kMemoryBytes);

  // The mean over at least `duration`: hosts that are shared change within seconds.
  double ReadBytesPerSecond(Duration duration);
  // The best of some milliseconds at a time, over at least `duration`: others can only slow it.
  double OperationsPerSecond(kernels::Arithmetic arithmetic, Duration duration);
  // All of them, `duration` each.
  MachineLimits Measure(Duration duration);
  // Measures the arithmetic again, `duration` each, and keeps the better figure of both times: what
  // was slowed by others when it was measured first.
  void RaisePeaks(Duration duration, MachineLimits* limits);

 private:
  kernels::CpuContext& context_;
  const Clock& clock_;
  Buffer memory_;
  TimePoint last_read_;  // when it ended; at first, when it was written
};

}  // namespace aril

#endif  // ARIL_APPS_MACHINE_LIMITS_H_
