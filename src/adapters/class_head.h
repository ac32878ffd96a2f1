// The head of a classifier: what transformers calls `score` in …ForSequenceClassification, and PEFT
// saves with an adapter whose task_type is SEQ_CLS.
//
// It stays in float32 on the host, beside the adapter's other small numbers, and is of no device
// and no pool: it is applied once for a text, to one hidden state that is on the host anyway.

#ifndef ARIL_ADAPTERS_CLASS_HEAD_H_
#define ARIL_ADAPTERS_CLASS_HEAD_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "spec/classifier_spec.h"
#include "tensor/safetensors.h"

namespace aril {

// Immutable; thread-safe.
class ClassHead {
 public:
  // `weight` [labels, hidden], at least one of each; a copy is kept.
  ClassHead(const TensorView& weight, ClassifierSpec spec);

  int64_t num_labels() const { return num_labels_; }
  // In memory, about.
  int64_t size_bytes() const;

  // Those of a text up to the token whose hidden state is classified, at least one: as in
  // transformers, the last that is not padding, also where that is the text's own end.
  std::span<const int32_t> WithoutPadding(std::span<const int32_t> tokens) const;

  // [labels] of a hidden state [hidden] behind the model's last norm: sums in double, in order,
  // each rounded once.
  std::vector<float> Logits(std::span<const float> state) const;
  // What these stand for, as in transformers' pipeline: of labels of which one is right, numbers
  // that make 1; of others, and of a lone one, each by itself; of a regression, the logits.
  std::vector<float> Probabilities(std::span<const float> logits) const;
  // The name of the one with the largest, the first of several.
  std::string LabelOf(std::span<const float> logits) const;

 private:
  ClassifierSpec spec_;
  int64_t num_labels_;
  std::vector<float> weight_;  // [hidden, labels]
};

}  // namespace aril

#endif  // ARIL_ADAPTERS_CLASS_HEAD_H_
