#include "apps/step_roofline.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace aril {

using kernels::WeightFormat;

int64_t StepLoad::num_rows() const {
  return std::accumulate(
      sequences.begin(), sequences.end(), int64_t{0},
      [](int64_t sum, const SequenceLoad& sequence) { return sum + sequence.rows; });
}

namespace {

// What attention of a layer has to do: tokens whose K and V are read, and those that rows see.
struct AttentionLoad {
  double tokens = 0;
  double seen = 0;

  AttentionLoad& operator+=(const AttentionLoad& other) {
    tokens += other.tokens;
    seen += other.seen;
    return *this;
  }
};

AttentionLoad LoadOf(const StepLoad::SequenceLoad& sequence, int64_t window) {
  AttentionLoad load;
  const int64_t first = sequence.context - sequence.rows;  // the first row's position
  for (int64_t row = first; row < sequence.context; ++row) {
    load.seen += static_cast<double>(std::min(row + 1, window));
  }
  const int64_t first_seen = std::max<int64_t>(0, first + 1 - std::min(window, first + 1));
  load.tokens = static_cast<double>(sequence.context - first_seen);
  return load;
}

// How many of a layer's experts some row goes to, if every row chooses evenly and by itself.
double ExpertsInUse(const ExpertsSpec& experts, double rows) {
  const auto count = static_cast<double>(experts.count);
  return count * (1 - std::pow(1 - static_cast<double>(experts.per_token) / count, rows));
}

}  // namespace

std::vector<OperatorCost> StepCosts(const ModelSpec& spec, const StepFormats& formats,
                                    const StepLoad& load, const MachineLimits& limits) {
  const auto rows = static_cast<double>(load.num_rows());
  const auto layers = static_cast<double>(spec.num_layers);
  const auto linear_layers = static_cast<double>(spec.NumLayers(true));
  const double attention_layers = layers - linear_layers;
  std::vector<OperatorCost> costs;
  // A layer's reads and operations, done `times` times.
  const auto add = [&](const char* name, WeightFormat format, double elements, double operations,
                       double times) {
    const double bytes = elements * kernels::BytesPerWeight(format);
    const double seconds =
        std::max(bytes / limits.read_bytes_per_s, operations / limits.product_per_s(format));
    costs.push_back({name, bytes * times, operations * times, seconds * times});
  };
  const auto product = [&](const char* name, WeightFormat format, int64_t in, int64_t out,
                           double product_rows, double times) {
    const double elements = static_cast<double>(in) * static_cast<double>(out);
    add(name, format, elements, 2 * product_rows * elements, times);
  };
  const auto layer_product = [&](const char* name, int64_t in, int64_t out, double times) {
    product(name, formats.layers, in, out, rows, times);
  };
  layer_product("qkv", spec.hidden_size, spec.OutFeatures(Projection::kQ) + 2 * spec.kv_size(),
                attention_layers);
  const auto attention = [&](const char* name, int64_t window, double times) {
    AttentionLoad of_layer;
    for (const StepLoad::SequenceLoad& sequence : load.sequences) {
      of_layer += LoadOf(sequence, window);
    }
    if (times == 0) return;
    add(name, formats.others, of_layer.tokens * 2 * static_cast<double>(spec.kv_size()),
        4 * of_layer.seen * static_cast<double>(spec.q_size()), times);
  };
  double windowed = 0;
  for (int64_t layer = 0; layer < spec.num_layers; ++layer) windowed += spec.HasWindow(layer);
  attention("attention", INT64_MAX, attention_layers - windowed);
  attention("attention, windowed", spec.sliding_window.value_or(INT64_MAX), windowed);
  layer_product("o", spec.q_size(), spec.hidden_size, attention_layers);
  if (spec.linear_attention) {
    const LinearAttentionSpec& linear = *spec.linear_attention;
    layer_product("delta in", spec.hidden_size,
                  spec.OutFeatures(Projection::kDeltaQkv) + linear.value_size(), linear_layers);
    product("delta gates", formats.others, spec.hidden_size, 2 * linear.num_value_heads, rows,
            linear_layers);
    // A matrix for each head of a sequence is read and written; of a row it is multiplied by k and
    // q, and changed.
    const auto matrices = static_cast<double>(linear.value_size() * linear.key_dim);
    add("gated delta", WeightFormat::kF32,
        2 * matrices * static_cast<double>(load.sequences.size()), 6 * rows * matrices,
        linear_layers);
    layer_product("delta out", linear.value_size(), spec.hidden_size, linear_layers);
  }
  if (spec.experts) {
    product("router", formats.others, spec.hidden_size, spec.experts->count, rows, layers);
    const auto elements = static_cast<double>(3 * spec.hidden_size * spec.intermediate_size);
    add("experts", formats.layers, ExpertsInUse(*spec.experts, rows) * elements,
        2 * rows * static_cast<double>(spec.experts->per_token) * elements, layers);
  } else {
    layer_product("gate_up", spec.hidden_size, 2 * spec.intermediate_size, layers);
    layer_product("down", spec.intermediate_size, spec.hidden_size, layers);
  }
  double adapter_elements = 0, adapter_operations = 0;
  const auto is_adapted = [&](const LinearModule& module) {
    return load.adapter_targets.empty() ||
           std::ranges::any_of(load.adapter_targets, [&](const std::string& target) {
             return module.path == target || module.path.ends_with("." + target);
           });
  };
  const auto add_adapter = [&](const StepLoad::AdapterRows& adapter, int64_t layer) {
    const auto adapter_rows = static_cast<double>(adapter.rows);
    const double of_kind = spec.IsLinear(layer) ? linear_layers : attention_layers;
    for (const LinearModule& module : spec.LinearModules(layer)) {
      if (!is_adapted(module)) continue;
      const double elements =
          of_kind *
          static_cast<double>(adapter.rank * (spec.InFeatures(module) + spec.OutFeatures(module)));
      if (module.first.is_of_expert()) {
        const auto count = static_cast<double>(spec.experts->count);
        const auto per_token = static_cast<double>(spec.experts->per_token);
        adapter_elements += elements * ExpertsInUse(*spec.experts, adapter_rows) / count;
        adapter_operations += 2 * adapter_rows * elements * per_token / count;
      } else {
        adapter_elements += elements;
        adapter_operations += 2 * adapter_rows * elements;
      }
    }
  };
  for (const StepLoad::AdapterRows& adapter : load.adapters) {
    for (const int64_t layer : spec.LayersOfEachKind()) add_adapter(adapter, layer);
  }
  if (adapter_elements > 0) {
    add("adapters", formats.others, adapter_elements, adapter_operations, 1);
  }
  if (spec.has_lm_head) {
    product("lm_head", formats.lm_head, spec.hidden_size, spec.vocab_size,
            static_cast<double>(load.sequences.size()), 1);
  }
  return costs;
}

double StepSeconds(const std::vector<OperatorCost>& costs) {
  double seconds = 0;
  for (const OperatorCost& cost : costs) seconds += cost.seconds;
  return seconds;
}

}  // namespace aril
