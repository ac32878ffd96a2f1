// The least time in which a step can be computed: for each operator, what must be read over the
// memory's bandwidth, or what must be calculated over the peak rate, whichever takes longer.

#ifndef ARIL_APPS_STEP_ROOFLINE_H_
#define ARIL_APPS_STEP_ROOFLINE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "apps/machine_limits.h"
#include "kernels/gemm/weight_format.h"
#include "spec/model_spec.h"

namespace aril {

// A step, as far as its cost goes.
struct StepLoad {
  struct SequenceLoad {
    int64_t rows = 1;     // of this step
    int64_t context = 0;  // tokens up to its last row, itself included
  };
  // Rows that use one adapter of this rank.
  struct AdapterRows {
    int64_t rank = 0;
    int64_t rows = 0;
  };
  std::vector<SequenceLoad> sequences;  // each has one row of logits
  std::vector<AdapterRows> adapters;    // different ones
  // Modules that they change, by their names or ends of their paths; empty: all linear ones.
  std::vector<std::string> adapter_targets;

  int64_t num_rows() const;
};

struct OperatorCost {
  std::string name;  // "qkv", "attention", "attention, windowed", …
  double bytes = 0;
  double operations = 0;
  double seconds = 0;  // at the limits
};

// How numbers are kept: F32 or BF16; the layers' matrices and lm_head also in fewer bits.
struct StepFormats {
  kernels::WeightFormat layers = kernels::WeightFormat::kBF16;
  kernels::WeightFormat lm_head = kernels::WeightFormat::kBF16;
  kernels::WeightFormat others = kernels::WeightFormat::kBF16;  // routers, adapters, KV
};

// The operators that count, each summed over the layers. Reads of activations, norms, RoPE and
// sampling are taken to be free. Of experts, so many are read as there would be on average if every
// row chose evenly.
std::vector<OperatorCost> StepCosts(const ModelSpec& spec, const StepFormats& formats,
                                    const StepLoad& load, const MachineLimits& limits);

// Their sum.
double StepSeconds(const std::vector<OperatorCost>& costs);

}  // namespace aril

#endif  // ARIL_APPS_STEP_ROOFLINE_H_
