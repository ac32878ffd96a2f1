#include "adapters/class_head.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"

namespace aril {

ClassHead::ClassHead(const TensorView& weight, ClassifierSpec spec)
    : spec_(std::move(spec)),
      num_labels_(weight.shape[0]),
      weight_(static_cast<size_t>(weight.num_elements())) {
  const int64_t hidden = weight.shape[1];
  std::vector<float> row(static_cast<size_t>(hidden));
  for (int64_t label = 0; label < num_labels_; ++label) {
    CopyAsFloat(weight, label * hidden, hidden, row.data());
    for (int64_t i = 0; i < hidden; ++i) {
      weight_[static_cast<size_t>(i * num_labels_ + label)] = row[static_cast<size_t>(i)];
    }
  }
}

int64_t ClassHead::size_bytes() const {
  constexpr size_t kPerLabel = 64;  // the node
  size_t bytes = weight_.size() * sizeof(float);
  for (const auto& [id, name] : spec_.labels) bytes += kPerLabel + name.size();
  return static_cast<int64_t>(bytes);
}

std::span<const int32_t> ClassHead::WithoutPadding(std::span<const int32_t> tokens) const {
  while (tokens.size() > 1 && tokens.back() == spec_.pad_token_id) {
    tokens = tokens.first(tokens.size() - 1);
  }
  return tokens;
}

// Products of floats are exact in double, so that it does not matter whether they are fused.
std::vector<float> ClassHead::Logits(std::span<const float> state) const {
  const auto num_labels = static_cast<size_t>(num_labels_);
  CHECK_EQ(num_labels * state.size(), weight_.size());
  std::vector<double> sums(num_labels);
  for (size_t i = 0; i < state.size(); ++i) {
    const float* const weights = weight_.data() + i * num_labels;
    const double value = state[i];
    for (size_t label = 0; label < num_labels; ++label) {
      sums[label] += value * double{weights[label]};
    }
  }
  std::vector<float> logits(num_labels);
  std::ranges::transform(sums, logits.begin(), [](double sum) { return static_cast<float>(sum); });
  return logits;
}

// Source: transformers, pipelines/text_classification.py.
std::vector<float> ClassHead::Probabilities(std::span<const float> logits) const {
  using Kind = ClassifierSpec::Kind;
  std::vector<float> probabilities(logits.begin(), logits.end());
  if (spec_.kind == Kind::kRegression) return probabilities;
  if (spec_.kind == Kind::kEachMayBeRight || logits.size() == 1) {
    for (float& value : probabilities) {
      value = static_cast<float>(1 / (1 + std::exp(-double{value})));
    }
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
