// Random weights at the speed of the disk, the same on every machine for the same seed.
//
// A weight is a draw from the 65,536 equally likely quantiles z_k = Φ⁻¹((k + ½) / 65536) of the
// normal distribution, times the tensor's standard deviation. 64 random bits, a function of (seed,
// tensor name, index / 4) alone, choose four weights by one table look-up each: neither the number
// of threads nor the sharding nor the dtype changes what is drawn.

#ifndef ARIL_APPS_SYNTH_WEIGHTS_H_
#define ARIL_APPS_SYNTH_WEIGHTS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/thread_pool.h"
#include "tensor/tensor.h"

namespace aril {

struct SynthTensor {
  std::string name;
  Shape shape;
  // Standard deviation of its normal elements; 0: every element is 1 (a norm's weight).
  double std = 0;

  int64_t num_elements() const { return TensorView{.shape = shape}.num_elements(); }
};

// The seed of a part called `name`: independent of those of other names.
uint64_t SynthSeed(uint64_t seed, std::string_view name);

// Told how many more bytes were written.
using OnBytesWritten = std::function<void(uint64_t)>;

// Draws weights of one dtype (F32, BF16 or F16). Not thread-safe.
class SynthWeights {
 public:
  explicit SynthWeights(DType dtype);

  // Writes a safetensors file of these tensors, in this order, on all threads of `pool`.
  Status WriteFile(const std::string& path, std::span<const SynthTensor> tensors, uint64_t seed,
                   ThreadPool& pool, const OnBytesWritten& on_bytes_written);

 private:
  // The encoded elements that a tensor's 65,536 possible draws become.
  using Table = std::vector<std::byte>;

  const Table& TableFor(double std);

  const DType dtype_;
  std::vector<double> quantiles_;
  std::map<double, Table> tables_;  // by standard deviation
};

}  // namespace aril

#endif  // ARIL_APPS_SYNTH_WEIGHTS_H_
