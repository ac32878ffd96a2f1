// How a model wants to be sampled: generation_config.json, but for the tokens that end a text,
// which are the ModelSpec's.

#ifndef ARIL_SPEC_GENERATION_CONFIG_H_
#define ARIL_SPEC_GENERATION_CONFIG_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/status.h"

namespace aril {

// What counts where a request does not say. Unless a model says otherwise, everything is off.
struct GenerationDefaults {
  double temperature = 1;
  int64_t top_k = 0;  // 0 or -1: off
  double top_p = 1;
  double min_p = 0;
  double repetition_penalty = 1;
  // Tokens of a chat's answer; none: as many as fit. (A completion has 16, as with OpenAI.)
  std::optional<int64_t> max_new_tokens;
};

struct GenerationConfig {
  GenerationDefaults defaults;
  std::vector<std::string> stated;  // of the defaults, by the model: "top_p=0.9"
  // Members that transformers would obey and Aril does not: "suppress_tokens".
  std::vector<std::string> ignored;
};

// Takes the members that vLLM takes from there (get_diff_sampling_param). InvalidArgument names one
// that no request might state either.
StatusOr<GenerationConfig> ParseGenerationConfig(const Json& json);
// Of a model's folder, which need not have the file.
StatusOr<GenerationConfig> LoadGenerationConfig(const std::string& model_dir);

}  // namespace aril

#endif  // ARIL_SPEC_GENERATION_CONFIG_H_
