// What a classifier's labels are called and what its logits stand for: what transformers'
// config.json beside the weights says. PEFT saves none with an adapter; who wants names adds it
// (`model.config.save_pretrained`).

#ifndef ARIL_SPEC_CLASSIFIER_SPEC_H_
#define ARIL_SPEC_CLASSIFIER_SPEC_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "base/folder.h"
#include "base/json.h"
#include "base/status.h"
#include "spec/model_spec.h"

namespace aril {

inline constexpr int64_t kMaxClassLabels = 1024;
inline constexpr size_t kMaxLabelBytes = 256;

struct ClassifierSpec {
  // kOneIsRight: of several labels; a lone logit is that of "yes".
  enum class Kind { kOneIsRight, kEachMayBeRight, kRegression };
  Kind kind = Kind::kOneIsRight;
  // The text that is classified ends before those of its tokens that are this one.
  std::optional<int32_t> pad_token_id;
  std::map<int64_t, std::string> labels;  // "id2label"; names may be missing

  // LABEL_7 without one, as in transformers.
  std::string LabelOf(int64_t id) const;
};

// Errors name the field.
StatusOr<ClassifierSpec> ParseClassifierSpec(const Json& config, const ModelSpec& base);
// Of an adapter's folder. Without a config.json there, it is what the base model's would say.
StatusOr<ClassifierSpec> LoadClassifierSpec(const Folder& dir, const ModelSpec& base);

}  // namespace aril

#endif  // ARIL_SPEC_CLASSIFIER_SPEC_H_
