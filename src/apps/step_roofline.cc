#include "apps/step_roofline.h"

#include <algorithm>
#include <numeric>

namespace aril {

int64_t StepLoad::num_rows() const {
  return std::accumulate(
      sequences.begin(), sequences.end(), int64_t{0},
      [](int64_t sum, const SequenceLoad& sequence) { return sum + sequence.rows; });
}

std::vector<OperatorCost> StepCosts(const ModelSpec& spec, const StepDTypes& dtypes,
                                    const StepLoad& load, const MachineLimits& limits) {
  const auto rows = static_cast<double>(load.num_rows());
  const auto layers = static_cast<double>(spec.num_layers);
  std::vector<OperatorCost> costs;
  // A layer's reads and operations, done `times` times.
  const auto add = [&](const char* name, DType dtype, double elements, double operations,
                       double times) {
    const double bytes = elements * static_cast<double>(SizeOf(dtype));
    const double seconds =
        std::max(bytes / limits.read_bytes_per_s, operations / limits.product_per_s(dtype));
    costs.push_back({name, bytes * times, operations * times, seconds * times});
  };
  const auto product = [&](const char* name, DType dtype, int64_t in, int64_t out,
                           double product_rows, double times) {
    const double elements = static_cast<double>(in) * static_cast<double>(out);
    add(name, dtype, elements, 2 * product_rows * elements, times);
  };
  const auto layer_product = [&](const char* name, int64_t in, int64_t out) {
    product(name, dtypes.matrices, in, out, rows, layers);
  };
  layer_product("qkv", spec.hidden_size, spec.q_size() + 2 * spec.kv_size());
  double kv_elements = 0, attention_operations = 0;
  for (const StepLoad::SequenceLoad& sequence : load.sequences) {
    const auto context = static_cast<double>(sequence.context);
    const auto own = static_cast<double>(sequence.rows);
    kv_elements += context * 2 * static_cast<double>(spec.kv_size());
    // Row i of the last `own` ones sees own - 1 - i tokens less than the last.
    const double seen = own * context - own * (own - 1) / 2;
    attention_operations += 4 * seen * static_cast<double>(spec.q_size());
  }
  add("attention", dtypes.others, kv_elements, attention_operations, layers);
  layer_product("o", spec.q_size(), spec.hidden_size);
  layer_product("gate_up", spec.hidden_size, 2 * spec.intermediate_size);
  layer_product("down", spec.intermediate_size, spec.hidden_size);
  double adapter_elements = 0, adapter_operations = 0;
  for (const StepLoad::AdapterRows& adapter : load.adapters) {
    double elements = 0;
    for (const Projection projection : kAllProjections) {
      elements += static_cast<double>(adapter.rank *
                                      (spec.InFeatures(projection) + spec.OutFeatures(projection)));
    }
    adapter_elements += elements;
    adapter_operations += 2 * static_cast<double>(adapter.rows) * elements;
  }
  if (adapter_elements > 0) {
    add("adapters", dtypes.others, adapter_elements, adapter_operations, layers);
  }
  product("lm_head", dtypes.others, spec.hidden_size, spec.vocab_size,
          static_cast<double>(load.sequences.size()), 1);
  return costs;
}

double StepSeconds(const std::vector<OperatorCost>& costs) {
  double seconds = 0;
  for (const OperatorCost& cost : costs) seconds += cost.seconds;
  return seconds;
}

}  // namespace aril
