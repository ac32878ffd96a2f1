// PEFT's adapter_config.json as written, independent of a base model.

#ifndef ARIL_SPEC_LORA_CONFIG_H_
#define ARIL_SPEC_LORA_CONFIG_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/folder.h"
#include "base/json.h"
#include "base/status.h"
#include "spec/module_selection.h"
#include "spec/token_rows.h"

namespace aril {

inline constexpr int64_t kMaxLoraRank = 512;
// Of "alora_invocation_tokens", which long prompts are searched for. Of those published some are
// sentences of 80 tokens.
inline constexpr size_t kMaxInvocationTokens = 256;

struct LoraConfig {
  // The value of a "rank_pattern" or "alpha_pattern", by a regular expression over modules' names;
  // the first that matches counts.
  template <typename T>
  using Pattern = std::vector<std::pair<std::string, T>>;

  int64_t rank = 0;
  double lora_alpha = 0;
  bool use_rslora = false;
  bool use_dora = false;
  bool is_classifier = false;  // "task_type": "SEQ_CLS"
  // Not empty: an activated LoRA (Greenewald et al. 2025), which applies from these tokens on.
  std::vector<int32_t> invocation_tokens;
  bool all_linear = false;  // "target_modules": "all-linear"; then target_modules is empty
  ModuleSelection target_modules;
  // Names of matrices, or ends of them after a "."; "experts.gate_up_proj" is all experts' of a
  // layer in transformers 5.
  std::vector<std::string> target_parameters;
  ModuleSelection exclude_modules;
  std::vector<std::string> modules_to_save;  // names, or ends of them after a "."
  std::vector<TokenRows> token_rows;         // "trainable_token_indices"
  // What is said of one of two matrices that are one in the base model is meant of both.
  bool ensure_weight_tying = false;
  Pattern<int64_t> rank_pattern;
  Pattern<double> alpha_pattern;
  std::optional<std::vector<int64_t>> layers_to_transform;
  std::vector<std::string>
      layers_pattern;  // regular expressions; empty: any name of the layer list
  // Of PEFT, which wrote the files; empty: not said.
  std::string peft_version;
  // What the trainer called the base model; never used to match it.
  std::string base_model_name;
};

// Refuses, naming the field, what is not a LoRA configuration, and what would change the result and
// is not supported. Unknown keys are ignored.
StatusOr<LoraConfig> ParseLoraConfig(const Json& config);
// Whether a configuration says that it is of a classifier, whatever else may be wrong with it.
bool IsClassifier(const Json& config);
// The folder's adapter_config.json.
StatusOr<LoraConfig> LoadLoraConfig(const Folder& adapter_dir);

}  // namespace aril

#endif  // ARIL_SPEC_LORA_CONFIG_H_
