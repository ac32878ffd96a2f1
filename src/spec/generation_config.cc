#include "spec/generation_config.h"

#include <array>
#include <optional>
#include <string_view>

#include "base/file.h"
#include "base/strings.h"
#include "spec/fields.h"

namespace aril {
namespace {

using internal::NumberField;

// Those of transformers' GenerationConfig that change what one sequence gets, and the number, if
// any, by which they do not. do_sample is not among them: as in vLLM, a temperature decides.
struct Member {
  std::string_view key;
  std::optional<double> neutral = std::nullopt;
};
constexpr Member kIgnored[] = {{"bad_words_ids"},
                               {"begin_suppress_tokens"},
                               {"encoder_repetition_penalty", 1},
                               {"epsilon_cutoff", 0},
                               {"eta_cutoff", 0},
                               {"exponential_decay_length_penalty"},
                               {"forced_bos_token_id"},
                               {"forced_eos_token_id"},
                               {"guidance_scale", 1},
                               {"max_length", 20},
                               {"min_length", 0},
                               {"min_new_tokens", 0},
                               {"no_repeat_ngram_size", 0},
                               {"num_beams", 1},
                               {"penalty_alpha", 0},
                               {"sequence_bias"},
                               {"stop_strings"},
                               {"suppress_tokens"},
                               {"top_h"},
                               {"typical_p", 1}};

bool ChangesNothing(const Json& json, const Member& member) {
  if (internal::IsOff(json, member.key)) return true;
  double number = 0;
  return json.Find(member.key)->AsNumber(&number) && number == member.neutral;
}

}  // namespace

StatusOr<GenerationConfig> ParseGenerationConfig(const Json& json) {
  GenerationConfig config;
  GenerationDefaults& defaults = config.defaults;
  // The bounds are those of a request's fields (gateway/generation_fields.cc).
  struct Number {
    NumberField field;
    double* value;
  };
  for (const auto& [field, value] : std::to_array<Number>(
           {{{"temperature", 0, 100, defaults.temperature}, &defaults.temperature},
            {{"top_p", 0, 1, defaults.top_p}, &defaults.top_p},
            {{"min_p", 0, 1, defaults.min_p}, &defaults.min_p},
            {{"repetition_penalty", 0.01, 100, defaults.repetition_penalty},
             &defaults.repetition_penalty}})) {
    ASSIGN_OR_RETURN(*value, internal::ReadNumber(json, field));
    if (internal::FindField(json, field.key) != nullptr) {
      config.stated.push_back(StrCat(field.key, "=", *value));
    }
  }
  if (defaults.top_p == 0) return internal::BadField(json, "top_p", "a number greater than 0");
  ASSIGN_OR_RETURN(defaults.top_k,
                   internal::ReadInt(json, {"top_k", -1, INT32_MAX, defaults.top_k}));
  if (internal::FindField(json, "top_k") != nullptr) {
    config.stated.push_back(StrCat("top_k=", defaults.top_k));
  }
  if (internal::FindField(json, "max_new_tokens") != nullptr) {
    ASSIGN_OR_RETURN(defaults.max_new_tokens,
                     internal::ReadInt(json, {"max_new_tokens", 1, INT32_MAX}));
    config.stated.push_back(StrCat("max_new_tokens=", *defaults.max_new_tokens));
  }
  for (const Member& member : kIgnored) {
    if (!ChangesNothing(json, member)) config.ignored.emplace_back(member.key);
  }
  return config;
}

StatusOr<GenerationConfig> LoadGenerationConfig(const std::string& model_dir) {
  const std::string path = model_dir + "/generation_config.json";
  if (!FileExists(path)) return GenerationConfig();
  ASSIGN_OR_RETURN(const Json json, internal::ReadConfigFile(path));
  auto config = ParseGenerationConfig(json);
  if (!config.ok()) return Annotate(config.status(), path);
  return config;
}

}  // namespace aril
