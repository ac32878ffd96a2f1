#include "adapters/class_head.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/check.h"

namespace aril {

ClassHead::ClassHead(const TensorView& weight, ClassifierSpec spec)
    : spec_(std::move(spec)),
      num_labels_(weight.shape[0]),
      weight_(static_cast<size_t>(weight.num_elements())) {
  CopyAsFloat(weight, 0, weight.num_elements(), weight_.data());
}

int64_t ClassHead::size_bytes() const {
  constexpr size_t kPerLabel = 64;  // the node
  size_t bytes = weight_.size() * sizeof(float);
  for (const auto& [id, name] : spec_.labels) bytes += kPerLabel + name.size();
  return static_cast<int64_t>(bytes);
}

std::vector<float> ClassHead::Logits(std::span<const float> state) const {
  CHECK_EQ(static_cast<size_t>(num_labels_) * state.size(), weight_.size());
  std::vector<float> logits;
  logits.reserve(static_cast<size_t>(num_labels_));
  const auto add = [](double sum, double product) { return sum + product; };
  const auto multiply = [](float a, float b) { return double{a} * double{b}; };
  for (size_t first = 0; first < weight_.size(); first += state.size()) {
    logits.push_back(static_cast<float>(
        std::inner_product(state.begin(), state.end(),
                           weight_.begin() + static_cast<ptrdiff_t>(first), 0.0, add, multiply)));
  }
  return logits;
}

// Source: transformers, pipelines/text_classification.py.
std::vector<float> ClassHead::Probabilities(std::span<const float> logits) const {
  using Kind = ClassifierSpec::Kind;
  std::vector<float> probabilities(logits.begin(), logits.end());
  if (spec_.kind == Kind::kRegression) return probabilities;
  if (spec_.kind == Kind::kEachMayBeRight || logits.size() == 1) {
    for (float& value : probabilities)
      value = static_cast<float>(1 / (1 + std::exp(-double{value})));
    return probabilities;
  }
  const double max = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - max);
  for (float& value : probabilities) value = static_cast<float>(std::exp(value - max) / sum);
  return probabilities;
}

std::string ClassHead::LabelOf(std::span<const float> logits) const {
  return spec_.LabelOf(std::ranges::max_element(logits) - logits.begin());
}

}  // namespace aril
